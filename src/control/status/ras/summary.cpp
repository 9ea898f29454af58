#include "control/status/ras/summary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/format.hpp"

namespace tutti::control::ras {
namespace {

std::string range_text(size_t least, size_t most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{}-{}", least, most);
}

std::string errors_text(const Verdict& verdict) {
  std::vector<std::string> words;
  if (verdict.incomplete) words.emplace_back("INCOMPLETE");
  if (verdict.error) words.emplace_back("ERROR");
  if (verdict.mismatch) words.emplace_back("MISMATCH");
  return words.empty() ? "OK" : fmt::format("{}", fmt::join(words, ","));
}

int weight(const Verdict& verdict) {
  return (verdict.incomplete ? 4 : 0) + (verdict.error ? 2 : 0) + (verdict.mismatch ? 1 : 0);
}

/// By node: how many of the communicator's ranks are there.
std::map<std::string, size_t> ranks_by_node(const Communicator& communicator) {
  std::map<std::string, size_t> nodes;
  for (const Rank& rank : communicator.ranks) ++nodes[rank.place.node];
  for (const Missing& rank : communicator.missing) ++nodes[rank.place.node];
  return nodes;
}

auto alike(const Listed& one) {
  return std::tuple(one.of->size, ranks_by_node(*one.of).size(), one.verdict.state, weight(one.verdict));
}

/// Frequent values first.
std::vector<std::pair<size_t, size_t>> by_frequency(const std::map<size_t, size_t>& times) {
  std::vector<std::pair<size_t, size_t>> all(times.begin(), times.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

std::string totals(size_t nodes, size_t processes, size_t devices) {
  return fmt::format("\n  Nodes  Processes         GPUs\n(total)    (total)      (total)\n{:>7}  {:>9}  {:>11}\n",
                     nodes, processes, devices);
}

/// The nodes with so many processes, if they are few.
std::string outliers(const Job& job, const std::map<std::string, size_t>& on_node, size_t processes, bool verbose) {
  std::map<std::string, std::vector<uint32_t>> found;
  for (const Process& process : job.processes) {
    if (on_node.at(process.place.node) == processes) found[process.place.node].push_back(process.place.process);
  }
  if (!is_itemised(found.size(), on_node.size(), verbose)) return "";
  std::string text = found.size() == 1 ? "\nThe outlier node:\n" : "\nThe outlier nodes:\n";
  for (const auto& [node, numbers] : found) {
    text += fmt::format("  Node {} running {} {}\n", node, numbers.size() == 1 ? "process" : "processes",
                        fmt::join(numbers, ","));
  }
  return text;
}

}  // namespace

bool is_itemised(size_t number, size_t total, bool verbose) {
  if (number == 1) return true;
  if (verbose) return total == 0 || 2 * number < total;
  return number <= 10 && (total == 0 || 4 * number <= total);
}

size_t silent_processes(const Job& job) {
  return static_cast<size_t>(std::count_if(job.processes.begin(), job.processes.end(),
                                           [](const Process& process) { return !process.answers && !process.dead; }));
}

Verdict verdict_of(const Communicator& communicator) {
  Verdict verdict;
  std::set<State> states;
  for (const Rank& rank : communicator.ranks) {
    states.insert(rank.state);
    verdict.error = verdict.error || (rank.error != 0 && rank.error != 7);
    verdict.mismatch = verdict.mismatch || rank.counts != communicator.ranks.front().counts;
  }
  for (const Missing& rank : communicator.missing) {
    if (rank.unresponsive) {
      verdict.incomplete = true;
    } else {
      states.insert(State::NoComm);
    }
  }
  if (!states.empty()) verdict.state = *states.rbegin();
  verdict.mismatch = verdict.mismatch || states.size() > 1;
  return verdict;
}

std::vector<Listed> list_communicators(const Job& job) {
  std::vector<Listed> all;
  for (const Communicator& communicator : job.communicators) all.push_back({&communicator, verdict_of(communicator)});
  std::stable_sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return alike(a) != alike(b) ? alike(a) > alike(b) : a.of->ranks.size() < b.of->ranks.size();
  });
  for (size_t i = 1; i < all.size(); ++i) {
    const bool same = alike(all[i]) == alike(all[i - 1]);
    all[i].group = all[i - 1].group + (same ? 0 : 1);
    all[i].index = same ? all[i - 1].index + 1 : 0;
  }
  return all;
}

std::string process_table(const Job& job, bool verbose) {
  std::map<std::string, size_t> on_node;
  std::map<size_t, size_t> device_counts;
  size_t devices = 0;
  for (const Process& process : job.processes) {
    ++on_node[process.place.node];
    ++device_counts[process.devices.size()];
    devices += process.devices.size();
  }
  std::map<size_t, size_t> process_counts;
  for (const auto& [node, processes] : on_node) ++process_counts[processes];
  const size_t nodes = on_node.size(), processes = job.processes.size();
  if (process_counts.size() == 1 && device_counts.size() == 1) {
    return fmt::format(
        "  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n{:>7}  {:>9}  {:>11}  {:>9}  {:>7}\n",
        nodes, on_node.begin()->second, device_counts.begin()->first, processes, devices);
  }
  if (device_counts.size() == 1) {
    std::string text = "  Nodes  Processes         GPUs\n          per node  per process\n";
    for (const auto& [each, times] : by_frequency(process_counts)) {
      text += fmt::format("{:>7}  {:>9}  {:>11}\n", times, each, device_counts.begin()->first);
    }
    text += totals(nodes, processes, devices);
    for (size_t i = 1; i < process_counts.size(); ++i) {
      text += outliers(job, on_node, by_frequency(process_counts)[i].first, verbose);
    }
    return text;
  }
  std::string text = "  Nodes  Processes\n          per node\n";
  for (const auto& [each, times] : by_frequency(process_counts)) text += fmt::format("{:>7}  {:>9}\n", times, each);
  text += "\n         Processes         GPUs\n                    per process\n";
  for (const auto& [each, times] : by_frequency(device_counts)) {
    text += fmt::format("{:9}{:>9}  {:>11}\n", "", times, each);
  }
  return text + totals(nodes, processes, devices);
}

std::string communicator_table(const std::vector<Listed>& listed) {
  if (listed.empty()) return "No communicator data collected!\n";
  std::string text =
      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n";
  for (size_t begin = 0, end = 0; begin < listed.size(); begin = end) {
    size_t reported = 0, least = ~size_t{0}, most = 0;
    for (end = begin; end < listed.size() && listed[end].group == listed[begin].group; ++end) {
      reported += listed[end].of->ranks.size();
      for (const auto& [node, ranks] : ranks_by_node(*listed[end].of)) {
        least = std::min(least, ranks);
        most = std::max(most, ranks);
      }
    }
    const Listed& first = listed[begin];
    text += fmt::format("{:>5}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>6}\n", first.group, end - begin,
                        ranks_by_node(*first.of).size(), range_text(std::min(least, most), most), first.of->size,
                        reported, name_of(first.verdict.state), errors_text(first.verdict));
  }
  return text;
}

}  // namespace tutti::control::ras
