// Why ranks wait: the ends of their chains of waits, in words.
#include <algorithm>
#include <map>

#include "control/describe.hpp"
#include "control/status/job_status.hpp"
#include "control/status/wait_groups.hpp"

namespace tutti::control {
namespace {

constexpr uint32_t kLook = 1000;     // milliseconds between two looks at what has changed
constexpr size_t kMaxJudged = 8192;  // ranks of a communicator: more would take this thread too long

/// A rank of a communicator: what it says of itself, or null; and its process.
struct Known {
  const RankStatus* status = nullptr;
  const JobProcess* process = nullptr;
  std::string title;
};

bool waits(const Known& rank) { return rank.status != nullptr && rank.status->stuck_ms > 0; }

using Ranks = std::map<Rank, Known>;

/// By communicator, in the order of their names.
std::map<std::string, Ranks> communicators(const JobStatus& job) {
  std::map<std::string, Ranks> all;
  for (const JobProcess& process : job.processes) {
    for (const KnownRank& known : process.known) {
      all[known.communicator][known.rank] = {.status = nullptr, .process = &process, .title = known.title};
    }
    for (const RankStatus& rank : process.status.ranks) {
      all[rank.communicator][rank.rank] = {.status = &rank, .process = &process, .title = rank.title};
    }
  }
  return all;
}

/// "12.3 s", "2 min".
std::string time_text(uint32_t milliseconds) {
  return milliseconds < 120'000 ? fmt::format("{:.1f} s", milliseconds / 1e3)
                                : fmt::format("{} min", milliseconds / 60'000);
}

std::string call_text(const RankStatus& rank) {
  const bool numbered = rank.entered > 0 && rank.is_transfer == 0;
  return numbered ? fmt::format("{}, call {}", rank.call, rank.entered) : rank.call;
}

/// A call of the same process that waits, in another communicator.
const RankStatus* waits_elsewhere(const JobProcess& process, const std::string& communicator) {
  const auto found = std::find_if(process.status.ranks.begin(), process.status.ranks.end(), [&](const RankStatus& r) {
    return r.communicator != communicator && r.stuck_ms > 0;
  });
  return found == process.status.ranks.end() ? nullptr : &*found;
}

/// Of a rank for which others wait, and which does not wait itself: "which has not entered barrier(), call 41: …".
std::string reason(const Known& rank, const RankStatus& waiter) {
  if (rank.process == nullptr) return "of which nothing is known";
  if (rank.process->state == JobProcess::State::Gone) return "whose process is gone";
  if (rank.process->state == JobProcess::State::Stopped) return "whose process is stopped, by a signal or a debugger";
  if (rank.process->state == JobProcess::State::Silent) {
    return "whose process does not answer: it is stopped, or cannot be reached";
  }
  if (rank.status == nullptr) return "of which its process has told nothing";
  const RankStatus& its = *rank.status;
  if (!its.failure.empty()) return fmt::format("where the communicator has failed: {}", its.failure);
  if (waits(rank)) return fmt::format("which waits in {}, it is not known for whom", call_text(its));
  if (waiter.is_transfer != 0 || its.left >= waiter.entered) {
    return fmt::format("whose last call was {}, {} ago or less", call_text(its), time_text(its.still_ms + kLook));
  }
  if (its.entered >= waiter.entered) return fmt::format("which is in {} and goes on", call_text(its));
  std::string text = fmt::format("which has not entered {}: ", call_text(waiter));
  if (const RankStatus* const other = waits_elsewhere(*rank.process, its.communicator)) {
    return text +
           fmt::format("its process waits, as rank {} of {}, in {}", other->rank, other->title, call_text(*other));
  }
  const std::string since = time_text(its.still_ms);
  if (its.entered == 0) return text + fmt::format("it has made no call yet, for {}", since);
  if (its.left < its.entered) return text + fmt::format("it is in {}, for {}", call_text(its), since);
  return text + fmt::format("its last call was {}, and it has made none for {}", call_text(its), since);
}

/// The ranks of a communicator that are known, as nodes.
struct Judged {
  std::vector<Rank> ranks;
  std::vector<Known> known;
  std::vector<Nodes> on;

  explicit Judged(const Ranks& all) {
    std::map<Rank, uint32_t> nodes;
    const auto node_of = [&](Rank rank) {
      const auto [at, fresh] = nodes.emplace(rank, static_cast<uint32_t>(ranks.size()));
      if (!fresh) return at->second;
      const auto found = all.find(rank);
      ranks.push_back(rank);
      known.push_back(found == all.end() ? Known{} : found->second);
      return at->second;
    };
    for (const auto& [rank, of] : all) node_of(rank);
    for (const auto& [rank, of] : all) {
      Nodes next;
      if (waits(of)) {
        for (const Rank awaited : of.status->awaited) next.push_back(node_of(awaited));
      }
      on.push_back(std::move(next));
    }
    on.resize(ranks.size());  // those that nobody but their waiters knows come last
  }
  std::vector<Rank> ranks_of(const Nodes& nodes) const {
    std::vector<Rank> found;
    for (const uint32_t node : nodes) found.push_back(ranks[node]);
    return found;
  }
};

std::string end_text(const Judged& judged, const Nodes& end, const RankStatus& waiter) {
  if (end.size() > 1) return list_ranks(judged.ranks_of(end)) + ", which seem to wait for each other";
  const Known& known = judged.known[end.front()];
  const std::string where =
      known.process == nullptr ? "" : fmt::format(" (process {} on {})", known.process->process, known.process->host);
  return fmt::format("rank {}{}, {}", judged.ranks[end.front()], where, reason(known, waiter));
}

std::string verdict(const Judged& judged, const WaitGroup& group) {
  const RankStatus& waiter = *judged.known[group.waiting.front()].status;
  const std::string who = fmt::format("{}: {}", waiter.title, list_ranks(judged.ranks_of(group.waiting)));
  if (group.ends.front() == group.waiting) return who + " seem to wait for each other";
  constexpr size_t kTold = 8;
  std::vector<std::string> ends;
  for (const Nodes& end : group.ends) {
    if (ends.size() < kTold) ends.push_back(end_text(judged, end, waiter));
  }
  if (group.ends.size() > kTold) ends.push_back(fmt::format("{} more", group.ends.size() - kTold));
  return fmt::format("{} {}, directly or not, for {}", who, group.waiting.size() == 1 ? "waits" : "wait",
                     fmt::join(ends, "; and for "));
}

}  // namespace

std::vector<std::string> verdicts(const JobStatus& job) {
  std::vector<std::string> all;
  for (const auto& [name, ranks] : communicators(job)) {
    const auto waiting = std::find_if(ranks.begin(), ranks.end(), [](const auto& rank) { return waits(rank.second); });
    if (waiting == ranks.end()) continue;
    if (ranks.size() > kMaxJudged) {
      all.push_back(fmt::format("{}: rank {} waits; the communicator has too many ranks to say for whom in the end",
                                waiting->second.title, waiting->first));
      continue;
    }
    const Judged judged(ranks);
    for (const WaitGroup& group : wait_groups(judged.on)) all.push_back(verdict(judged, group));
  }
  for (const JobProcess& process : job.processes) {
    all.insert(all.end(), process.status.slow.begin(), process.status.slow.end());
  }
  return all;
}

}  // namespace tutti::control
