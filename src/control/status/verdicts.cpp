// Why ranks wait: the ends of their chains of waits, in words.
#include <algorithm>
#include <map>
#include <utility>

#include "control/describe.hpp"
#include "control/status/job_status.hpp"
#include "control/status/wait_groups.hpp"

namespace tutti::control {
namespace {

constexpr uint32_t kLook = 1000;     // milliseconds between two looks at what has changed
constexpr size_t kMaxJudged = 8192;  // ranks of communicators: more would take this thread too long

/// A rank of a communicator: what it says of itself, or null; and its process.
struct Known {
  Rank rank = 0;
  std::string communicator, title;
  const RankStatus* status = nullptr;
  const JobProcess* process = nullptr;
};

bool waits(const Known& rank) { return rank.status != nullptr && rank.status->stuck_ms > 0; }

using Ranks = std::map<Rank, Known>;

/// By communicator, in the order of their names.
std::map<std::string, Ranks> communicators(const JobStatus& job) {
  std::map<std::string, Ranks> all;
  const auto add = [&](const JobProcess& process, const auto& rank, const RankStatus* status) {
    all[rank.communicator][rank.rank] = {.rank = rank.rank,
                                         .communicator = rank.communicator,
                                         .title = rank.title,
                                         .status = status,
                                         .process = &process};
  };
  for (const JobProcess& process : job.processes) {
    for (const KnownRank& known : process.known) add(process, known, nullptr);
    for (const RankStatus& rank : process.status.ranks) add(process, rank, &rank);
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

/// Has a rank not entered the collective in which the other one waits?
bool is_behind(const RankStatus& rank, const RankStatus& waiter) {
  return rank.failure.empty() && rank.stuck_ms == 0 && waiter.is_transfer == 0 && rank.entered < waiter.entered &&
         rank.left == rank.entered;
}

/// The call in which its process waits instead: if one thread makes all its calls, as far as can be seen.
const RankStatus* waits_instead(const Known& rank, const RankStatus& waiter) {
  if (rank.status == nullptr || !is_behind(*rank.status, waiter)) return nullptr;
  const std::vector<RankStatus>& ranks = rank.process->status.ranks;
  const auto of_it = [&](const RankStatus& other) { return other.communicator == rank.communicator; };
  return std::count_if(ranks.begin(), ranks.end(), of_it) == 1 ? waits_elsewhere(*rank.process, rank.communicator)
                                                               : nullptr;
}

/// "; it was last heard of 4.2 s ago", if that is known.
std::string heard_text(const JobProcess& process) {
  return process.heard_ms ? fmt::format("; it was last heard of {} ago", time_text(*process.heard_ms)) : "";
}

/// Of a rank for which others wait, and which does not wait itself: "which has not entered barrier(), call 41: …".
std::string reason(const Known& rank, const RankStatus& waiter) {
  if (rank.process == nullptr) return "of which nothing is known";
  if (rank.process->state == JobProcess::State::Gone) return "whose process is gone";
  if (rank.process->state == JobProcess::State::Stopped) {
    return "whose process is stopped, by a signal or a debugger" + heard_text(*rank.process);
  }
  if (rank.process->state == JobProcess::State::Silent) {
    return "whose process does not answer: it is stopped, or cannot be reached" + heard_text(*rank.process);
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

/// Known ranks as nodes: who waits for whom, also in another communicator.
class Judged {
 public:
  explicit Judged(std::vector<const Ranks*> all) {
    for (const Ranks* ranks : all) {
      for (const auto& [rank, known] : *ranks) node_of(known);
    }
    const size_t told = known_.size();  // those that nobody but their waiters knows come last
    for (size_t node = 0; node < told; ++node) {
      if (waits(known_[node])) add_awaited(node);
    }
    on_.resize(known_.size());
  }
  std::vector<std::string> verdicts() const {
    std::vector<std::string> all;
    for (const WaitGroup& group : wait_groups(on_)) all.push_back(verdict(group));
    return all;
  }

 private:
  uint32_t node_of(const Known& rank) {
    const auto [at, fresh] = nodes_.emplace(std::pair(rank.communicator, rank.rank), known_.size());
    if (fresh) {
      known_.push_back(rank);
      on_.emplace_back();
    }
    return static_cast<uint32_t>(at->second);
  }
  void add_awaited(size_t node) {
    const RankStatus& waiter = *known_[node].status;
    for (const Rank awaited : waiter.awaited) {
      const uint32_t next = node_of({.rank = awaited, .communicator = waiter.communicator, .title = waiter.title});
      on_[node].push_back(next);
      if (!on_[next].empty()) continue;
      const RankStatus* const other = waits_instead(known_[next], waiter);
      if (other == nullptr) continue;
      const auto instead = nodes_.find({other->communicator, other->rank});
      if (instead != nodes_.end()) on_[next].push_back(static_cast<uint32_t>(instead->second));
    }
  }
  /// Of these those that wait themselves: "world: ranks 0, 1"; of several communicators, or of another one than `by`:
  /// "ranks 0, 1 of world, rank 2 of row".
  std::string list(const Nodes& nodes, const std::string* by = nullptr) const {
    std::map<std::string, std::vector<Rank>> ranks;
    std::map<std::string, std::string> titles;
    for (const uint32_t node : nodes) {
      const Known& known = known_[node];
      if (!waits(known)) continue;
      ranks[known.communicator].push_back(known.rank);
      titles[known.communicator] = known.title;
    }
    if (ranks.size() == 1 && (by == nullptr || ranks.begin()->first == *by)) {
      return (by == nullptr ? titles.begin()->second + ": " : "") + list_ranks(ranks.begin()->second);
    }
    std::vector<std::string> parts;
    for (const auto& [communicator, of] : ranks) parts.push_back(list_ranks(of) + " of " + titles[communicator]);
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  std::string end_text(const WaitGroup& group, const Nodes& end) const;
  std::string verdict(const WaitGroup& group) const;

  std::map<std::pair<std::string, Rank>, size_t> nodes_;
  std::vector<Known> known_;
  std::vector<Nodes> on_;
};

std::string Judged::end_text(const WaitGroup& group, const Nodes& end) const {
  const std::string& first = known_[group.waiting.front()].communicator;
  if (end.size() > 1) return list(end, &first) + ", which seem to wait for each other";
  const Known& known = known_[end.front()];
  const auto waiter = std::find_if(group.waiting.begin(), group.waiting.end(), [&](uint32_t node) {
    return waits(known_[node]) && known_[node].communicator == known.communicator;
  });
  const Known& by = known_[waiter == group.waiting.end() ? group.waiting.front() : *waiter];
  const bool elsewhere = std::any_of(group.waiting.begin(), group.waiting.end(),
                                     [&](uint32_t node) { return known_[node].communicator != known.communicator; });
  return fmt::format(
      "rank {}{}{}, {}", known.rank, elsewhere ? " of " + known.title : "",
      known.process == nullptr ? "" : fmt::format(" (process {} on {})", known.process->process, known.process->host),
      reason(known, *by.status));
}

std::string Judged::verdict(const WaitGroup& group) const {
  const std::string who = list(group.waiting);
  if (group.ends.front() == group.waiting) return who + " seem to wait for each other";
  constexpr size_t kTold = 8;
  std::vector<std::string> ends;
  for (const Nodes& end : group.ends) {
    if (ends.size() < kTold) ends.push_back(end_text(group, end));
  }
  if (group.ends.size() > kTold) ends.push_back(fmt::format("{} more", group.ends.size() - kTold));
  const auto waiting =
      std::count_if(group.waiting.begin(), group.waiting.end(), [&](uint32_t node) { return waits(known_[node]); });
  return fmt::format("{} {}, directly or not, for {}", who, waiting == 1 ? "waits" : "wait",
                     fmt::join(ends, "; and for "));
}

bool some_wait(const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return waits(rank.second); });
}

}  // namespace

std::vector<std::string> verdicts(const JobStatus& job) {
  std::vector<std::string> all;
  const auto known = communicators(job);
  std::vector<std::vector<const Ranks*>> judged;  // of those in one list chains of waits are followed through all
  size_t together = 0;
  for (const auto& [name, ranks] : known) {
    if (!some_wait(ranks)) continue;
    if (ranks.size() > kMaxJudged) {
      all.push_back(fmt::format("{}: a rank waits; the communicator has too many ranks to say for whom in the end",
                                ranks.begin()->second.title));
      continue;
    }
    if (judged.empty() || together + ranks.size() > kMaxJudged) {
      judged.emplace_back();
      together = 0;
    }
    judged.back().push_back(&ranks);
    together += ranks.size();
  }
  for (std::vector<const Ranks*>& ranks : judged) {
    for (std::string& one : Judged(std::move(ranks)).verdicts()) all.push_back(std::move(one));
  }
  for (const JobProcess& process : job.processes) {
    all.insert(all.end(), process.status.slow.begin(), process.status.slow.end());
  }
  return all;
}

}  // namespace tutti::control
