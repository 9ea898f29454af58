#include <algorithm>
#include <functional>
#include <map>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "control/status/ras/report.hpp"
#include "control/status/ras/summary.hpp"

namespace tutti::control::ras {
namespace {

const char* plural(size_t number, const char* one, const char* many) { return number == 1 ? one : many; }

std::string device_text(const Place& place) {
  return fmt::format("GPU {} managed by process {} on node {}", place.device, place.process, place.node);
}

std::string process_line(const Process& process) {
  return fmt::format("  Process {} on node {} managing {} {}\n", process.place.process, process.place.node,
                     plural(process.devices.size(), "GPU", "GPUs"), fmt::join(process.devices, ","));
}

class Report {
 public:
  Report(const Job& job, bool verbose) : job_(job), verbose_(verbose), listed_(list_communicators(job)) {}

  std::string text() {
    all_ = fmt::format(
        "NCCL version {} (Tutti {}) compiled with CUDA 0.0\nCUDA runtime version 0, driver version 0\n\nJob summary\n"
        "===========\n\n{}\nCommunicators... ({:.3f}s)\n=============\n\n{}",
        kNcclVersion, job_.version, process_table(job_, verbose_), job_.seconds, communicator_table(listed_));
    all_ += "\nErrors\n======\n\n";
    silent_processes();
    for (const Listed& one : listed_) missing_ranks(one), failed_ranks(one);
    all_ += "Warnings\n========\n\n";
    if (const size_t silent = ras::silent_processes(job_); silent > 0) {
      all_ += fmt::format("TIMEOUT\n  Encountered {} while gathering communicator data\n\n",
                          counted(silent, "communication timeout"));
    }
    for (const Listed& one : listed_) {
      if (one.verdict.mismatch) differences(one);
    }
    return std::move(all_);
  }

 private:
  static std::string title(const Listed& one, const char* what) {
    return fmt::format("#{}-{} ({:016x}) {}\n", one.group, one.index, one.of->hash, what);
  }

  void silent_processes() {
    for (const bool dead : {false, true}) {
      std::vector<const Process*> found;
      for (const Process& process : job_.processes) {
        if (!process.answers && process.dead == dead) found.push_back(&process);
      }
      if (found.empty()) continue;
      const size_t number = found.size();
      all_ += dead ? fmt::format("DEAD\n  {} job {} considered dead (unreachable via the RAS network)\n", number,
                                 plural(number, "process is", "processes are"))
                   : fmt::format("INCOMPLETE\n  Missing communicator data from {} job {}\n", number,
                                 plural(number, "process", "processes"));
      if (is_itemised(number, 0, verbose_)) {
        for (const Process* process : found) all_ += process_line(*process);
      }
      all_ += "\n";
    }
  }

  void missing_ranks(const Listed& one) {
    std::vector<const Missing*> found;
    for (const Missing& rank : one.of->missing) {
      if (rank.unresponsive) found.push_back(&rank);
    }
    if (found.empty()) return;
    all_ +=
        title(one, "INCOMPLETE") + fmt::format("  Missing communicator data from {}\n", counted(found.size(), "rank"));
    if (is_itemised(found.size(), static_cast<size_t>(one.of->size), verbose_)) {
      for (const Missing* rank : found) all_ += fmt::format("  Rank {} -- {}\n", rank->rank, device_text(rank->place));
    }
    all_ += "\n";
  }

  void failed_ranks(const Listed& one) {
    std::map<int, std::vector<const Rank*>> by_code;
    size_t number = 0;
    for (const Rank& rank : one.of->ranks) {
      if (rank.error == 0 || rank.error == 7) continue;
      by_code[rank.error].push_back(&rank);
      ++number;
    }
    if (number == 0) return;
    all_ += title(one, "ERROR") +
            fmt::format("  Asynchronous {} on {}\n", plural(number, "error", "errors"), counted(number, "rank"));
    std::vector<std::pair<int, std::vector<const Rank*>>> kinds(by_code.begin(), by_code.end());
    std::stable_sort(kinds.begin(), kinds.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    for (const auto& [code, ranks] : kinds) {
      const char* const texts[] = {"",
                                   "Unhandled CUDA error",
                                   "System error",
                                   "Internal error",
                                   "Invalid argument",
                                   "Invalid usage",
                                   "Remote process error"};
      const char* const text = code >= 1 && code <= 6 ? texts[code] : "Unexpected error";
      group(ranks, 0, fmt::format("reported {}", text), fmt::format("reported {}", text));
    }
    all_ += "\n";
  }

  void differences(const Listed& one) {
    all_ += title(one, "MISMATCH");
    states(one);
    for (size_t i = 0; i < kCounted.size(); ++i) counts(one, i);
  }

  void states(const Listed& one) {
    std::map<State, std::vector<const Rank*>> by_state;
    for (const Rank& rank : one.of->ranks) by_state[rank.state].push_back(&rank);
    std::vector<Rank> absent;
    for (const Missing& rank : one.of->missing) {
      if (!rank.unresponsive) absent.push_back({.rank = rank.rank, .place = rank.place, .state = State::NoComm});
    }
    for (const Rank& rank : absent) by_state[State::NoComm].push_back(&rank);
    if (by_state.size() < 2) return;
    all_ += "  Communicator ranks have different status\n";
    for (const auto& [state, ranks] : most_first(by_state)) {
      group(ranks, static_cast<size_t>(one.of->size), fmt::format("have status {}", name_of(state)),
            fmt::format("has status {}", name_of(state)));
    }
  }

  void counts(const Listed& one, size_t collective) {
    std::map<uint64_t, std::vector<const Rank*>, std::greater<>> by_count;
    for (const Rank& rank : one.of->ranks) by_count[rank.counts[collective]].push_back(&rank);
    if (by_count.size() < 2) return;
    all_ += fmt::format("  Communicator ranks have different {} operation counts\n", kCounted[collective]);
    for (const auto& [count, ranks] : most_first(by_count)) {
      const std::string what =
          count == 0 ? "not launched any operations" : fmt::format("launched up to operation {}", count);
      group(ranks, static_cast<size_t>(one.of->size), "have " + what, "has " + what);
    }
    all_ += "\n";
  }

  template <class Map>
  static std::vector<std::pair<typename Map::key_type, typename Map::mapped_type>> most_first(const Map& groups) {
    std::vector<std::pair<typename Map::key_type, typename Map::mapped_type>> all(groups.begin(), groups.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    return all;
  }

  /// Ranks of which the same is true: "  6 ranks have …", and one by one where they are few.
  void group(const std::vector<const Rank*>& ranks, size_t total, const std::string& many, const std::string& one) {
    if (ranks.size() == 1) {
      all_ += fmt::format("  Rank {} {} -- {}\n", ranks.front()->rank, one, device_text(ranks.front()->place));
      return;
    }
    all_ += fmt::format("  {} ranks {}\n", ranks.size(), many);
    if (!is_itemised(ranks.size(), total, verbose_)) return;
    for (const Rank* rank : ranks) all_ += fmt::format("  Rank {} -- {}\n", rank->rank, device_text(rank->place));
  }

  const Job& job_;
  const bool verbose_;
  const std::vector<Listed> listed_;
  std::string all_;
};

}  // namespace

std::string to_text(const Job& job, bool verbose) { return Report(job, verbose).text(); }

}  // namespace tutti::control::ras
