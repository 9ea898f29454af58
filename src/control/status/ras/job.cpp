#include "control/status/ras/job.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/version.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::control::ras {
namespace {

/// The number of a communicator, which its public name begins with.
uint64_t hash_of(const std::string& name) {
  uint64_t hash = 0;
  for (size_t i = 0; i < std::min<size_t>(16, name.size()); ++i) {
    const char c = name[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
    hash = hash << 4 | static_cast<uint64_t>(digit);
  }
  return hash;
}

/// ncclResult_t.
int nccl_code(uint8_t code) {
  switch (static_cast<Code>(code)) {
    case Code::Ok:
      return 0;
    case Code::SystemError:
    case Code::OutOfMemory:
      return 2;
    case Code::InvalidArgument:
      return 4;
    case Code::InvalidUsage:
    case Code::Mismatch:
      return 5;
    case Code::PeerFailed:
    case Code::Timeout:
    case Code::ProtocolError:
      return 6;
    default:
      return 3;
  }
}

uint64_t count_of(const RankStatus& rank, Collective collective) {
  const auto at = static_cast<size_t>(collective);
  return at < rank.counts.size() ? rank.counts[at] : 0;
}

Rank rank_of(const RankStatus& status, const Place& place) {
  Rank rank{.rank = status.rank, .place = place};
  rank.error = status.failure.empty() ? 0 : std::max(1, nccl_code(status.failure_code));
  const auto code = static_cast<Code>(status.failure_code);
  if (code == Code::Aborted || code == Code::Revoked) rank.state = State::Abort;
  constexpr Collective kOrder[] = {Collective::Broadcast, Collective::Reduce, Collective::AllGather,
                                   Collective::ReduceScatter, Collective::AllReduce};
  for (size_t i = 0; i < kCounted.size(); ++i) rank.counts[i] = count_of(status, kOrder[i]);
  return rank;
}

/// Of the process, in one communicator.
size_t most_ranks(const JobProcess& process) {
  std::map<std::string, std::set<int32_t>> ranks;
  for (const RankStatus& rank : process.status.ranks) ranks[rank.communicator].insert(rank.rank);
  for (const KnownRank& rank : process.known) ranks[rank.communicator].insert(rank.rank);
  size_t most = 0;
  for (const auto& [communicator, all] : ranks) most = std::max(most, all.size());
  return most;
}

}  // namespace

const char* name_of(State state) {
  const char* const names[] = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};
  return names[static_cast<size_t>(state)];
}

Job job_of(const JobStatus& status) {
  Job job{.version = version(), .communicators = {}, .processes = {}};
  std::map<std::string, Communicator> communicators;
  for (const JobProcess& process : status.processes) {
    Process known{.place = {.node = process.address, .process = process.process},
                  .devices = {},
                  .answers = process.state == JobProcess::State::Answers,
                  .dead = process.state == JobProcess::State::Gone};
    const auto add = [&](const std::string& name) -> Communicator& {
      Communicator& communicator = communicators[name];
      communicator.hash = hash_of(name);
      return communicator;
    };
    for (const RankStatus& rank : process.status.ranks) {
      Communicator& communicator = add(rank.communicator);
      communicator.size = rank.ranks;
      communicator.ranks.push_back(rank_of(rank, known.place));
    }
    for (const KnownRank& rank : process.known) {
      const bool told = std::any_of(process.status.ranks.begin(), process.status.ranks.end(), [&](const RankStatus& r) {
        return r.communicator == rank.communicator && r.rank == rank.rank;
      });
      if (told || process.status.omitted > 0) continue;  // its answer may have had no room for it
      add(rank.communicator)
          .missing.push_back(
              {.rank = rank.rank, .place = known.place, .unresponsive = !known.answers, .dead = known.dead});
    }
    known.devices.assign(most_ranks(process), -1);
    job.processes.push_back(std::move(known));
  }
  for (auto& [name, communicator] : communicators) {
    const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
    std::sort(communicator.ranks.begin(), communicator.ranks.end(), by_rank);
    std::sort(communicator.missing.begin(), communicator.missing.end(), by_rank);
    const auto known = static_cast<int32_t>(communicator.ranks.size() + communicator.missing.size());
    communicator.size = std::max(communicator.size, known);
    job.communicators.push_back(std::move(communicator));
  }
  std::sort(job.communicators.begin(), job.communicators.end(),
            [](const Communicator& a, const Communicator& b) { return a.hash < b.hash; });
  std::sort(job.processes.begin(), job.processes.end(), [](const Process& a, const Process& b) {
    return std::tie(a.place.node, a.place.process) < std::tie(b.place.node, b.place.process);
  });
  return job;
}

}  // namespace tutti::control::ras
