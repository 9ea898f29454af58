#include "tools/perf/ranks.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/env.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/output.hpp"
#include "topo/cgroup.hpp"
#include "topo/cores.hpp"

namespace tutti::tools {
namespace {

/// True if the text begins with "rank 1: ", whatever the rank: it may be another that was asked to report.
bool names_a_rank(const std::string& text) {
  constexpr std::string_view kRank = "rank ";
  if (!text.starts_with(kRank)) return false;
  const size_t end = text.find_first_not_of("0123456789", kRank.size());
  return end != std::string::npos && end > kRank.size() && text.compare(end, 2, ": ") == 0;
}

/// After "rank 1: ", unless the text names a rank already.
void tell(const char* speaker, int rank, const std::string& text) {
  const std::string prefix = names_a_rank(text) ? "" : fmt::format("rank {}: ", rank);
  fmt::print(stderr, "{}: {}{}\n", speaker, prefix, text);
}

/// Errors of ranks that are threads: each text once, at once; and in the end how many ranks have said it.
class Told {
 public:
  void tell(const char* speaker, int rank, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (ranks_[text]++ == 0) tools::tell(speaker, rank, text);
  }
  void tell_numbers(const char* speaker) const {
    for (const auto& [text, ranks] : ranks_) {
      if (ranks == 1) continue;
      const std::string which = ranks_.size() == 1 ? "" : fmt::format(" ({:.40}...)", text);
      fmt::print(stderr, "{}: {} ranks have said so{}\n", speaker, ranks, which);
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> ranks_;
};

/// Rank 0 was ended by SIGPIPE, as by `| head`: the user wants no more, and knows why this rank was left alone.
bool follows_from_the_lost_reader(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known != nullptr && known->code() == Code::PeerFailed && reader_gone(STDOUT_FILENO);
}

bool run_one(const char* speaker, Communicator& comm, const std::function<void(Communicator&)>& body, Told& told) {
  const int rank = comm.rank();
  try {
    body(comm);
    comm.close();
    return true;
  } catch (const std::exception& error) {
    if (!follows_from_the_lost_reader(error)) told.tell(speaker, rank, error.what());
    if (!comm.empty()) tuttiCommAbort(comm.handle());
    return false;
  }
}

/// The unique id for all threads of all processes.
tuttiUniqueId agree_on_id(Communicator& processes) {
  tuttiUniqueId id{};
  if (processes.rank() == 0) id = Communicator::unique_id();
  processes.broadcast(std::span<uint8_t>(id.bytes, sizeof id.bytes), 0);
  return id;
}

}  // namespace

bool run_ranks(const char* speaker, int threads, const std::function<void(Communicator&)>& body,
               const std::function<void(int)>& prepare) {
  const int local = env().local_rank.value_or(0);
  if (prepare && threads == 1) prepare(local);
  Communicator processes = Communicator::from_environment();
  Told told;
  if (threads == 1) return run_one(speaker, processes, body, told);

  const tuttiUniqueId id = agree_on_id(processes);
  const int first = processes.rank() * threads, ranks = processes.size() * threads;
  std::atomic<int> failed{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      try {
        if (prepare) prepare(local * threads + i);
        Communicator comm(ranks, id, first + i);
        failed += run_one(speaker, comm, body, told) ? 0 : 1;
      } catch (const std::exception& error) {
        told.tell(speaker, first + i, error.what());
        ++failed;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  told.tell_numbers(speaker);
  if (failed == 0) processes.close();
  return failed == 0;
}

std::vector<RankPlace> gather_places(Communicator& comm) {
  RankPlace mine{};
  std::snprintf(mine.host, sizeof mine.host, "%s", host_name().c_str());
  std::snprintf(mine.bound_to, sizeof mine.bound_to, "%s", to_text(allowed_cores()).c_str());
  mine.memory = available_memory();
  mine.pid = getpid();
  mine.cpu = sched_getcpu();
  std::vector<RankPlace> all(static_cast<size_t>(comm.size()));
  check(tuttiAllGather(&mine, all.data(), sizeof mine, tuttiUint8, comm.handle(), nullptr));
  for (RankPlace& place : all) place.host[sizeof place.host - 1] = place.bound_to[sizeof place.bound_to - 1] = '\0';
  return all;
}

}  // namespace tutti::tools
