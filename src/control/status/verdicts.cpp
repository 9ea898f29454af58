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
  const RankStatus* status = nullptr;
  const JobProcess* process = nullptr;
};

bool waits(const Known& rank) { return rank.status != nullptr && rank.status->stuck_ms > 0; }

struct KnownCommunicator {
  std::string name, title;  ///< the title is another one's too, perhaps: then with a part of the name
  std::map<Rank, Known> ranks;
};

/// In the order of their titles.
std::vector<KnownCommunicator> communicators(const JobStatus& job) {
  std::map<std::string, KnownCommunicator> all;
  const auto add = [&](const JobProcess& process, const auto& rank, const RankStatus* status) {
    KnownCommunicator& of = all[rank.communicator];
    of.name = rank.communicator;
    if (!rank.title.empty()) of.title = rank.title;
    Known& known = of.ranks[rank.rank];
    if (known.process != nullptr && known.process != &process) return;  // a process speaks for its own ranks
    known = {.status = status, .process = &process};
  };
  for (const JobProcess& process : job.processes) {
    for (const KnownRank& known : process.known) add(process, known, nullptr);
  }
  for (const JobProcess& process : job.processes) {
    for (const RankStatus& rank : process.status.ranks) add(process, rank, &rank);
  }
  std::map<std::string, int> titles;
  for (const auto& [name, of] : all) ++titles[of.title];
  std::vector<KnownCommunicator> sorted;
  for (auto& [name, of] : all) {
    if (titles[of.title] > 1) of.title += fmt::format(" [{}]", name.substr(0, 8));
    sorted.push_back(std::move(of));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.title < b.title; });
  return sorted;
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

/// The calls of the same process that wait, in other communicators.
std::vector<const RankStatus*> waits_elsewhere(const JobProcess& process, const std::string& communicator) {
  std::vector<const RankStatus*> all;
  for (const RankStatus& rank : process.status.ranks) {
    if (rank.communicator != communicator && rank.stuck_ms > 0) all.push_back(&rank);
  }
  return all;
}

/// The call in which the rank's process waits instead of going on here. Null if one of its threads may go on by itself
/// (which may be the one that matters here), or if it is not clear which of its calls keeps it.
const RankStatus* waits_instead(const Known& rank) {
  if (rank.status == nullptr || !rank.status->failure.empty() || waits(rank)) return nullptr;
  const ProcessStatus& of = rank.process->status;
  if (of.is_free != 0 || of.omitted > 0) return nullptr;
  const auto here = [&](const RankStatus& other) { return other.communicator == rank.status->communicator; };
  if (std::count_if(of.ranks.begin(), of.ranks.end(), here) != 1) return nullptr;
  const auto elsewhere = waits_elsewhere(*rank.process, rank.status->communicator);
  return elsewhere.size() == 1 ? elsewhere.front() : nullptr;
}

/// "; it was last heard of 4.2 s ago", if that is known.
std::string heard_text(const JobProcess& process) {
  return process.heard_ms ? fmt::format("; it was last heard of {} ago", time_text(*process.heard_ms)) : "";
}

/// "its process waits, as rank 1 of row, in …", in each of such calls; else nothing.
std::string elsewhere_text(const Known& rank, const char* before = "") {
  std::vector<std::string> calls;
  for (const RankStatus* other : waits_elsewhere(*rank.process, rank.status->communicator)) {
    if (calls.size() < 3)
      calls.push_back(fmt::format("as rank {} of {}, in {}", other->rank, other->title, call_text(*other)));
  }
  return calls.empty() ? "" : fmt::format("{}its process waits, {}", before, fmt::join(calls, "; and "));
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
    return fmt::format("whose last call was {}, {} ago or less{}", call_text(its), time_text(its.still_ms + kLook),
                       elsewhere_text(rank, "; "));
  }
  if (its.entered >= waiter.entered) return fmt::format("which is in {} and goes on", call_text(its));
  std::string text = fmt::format("which has not entered {}: ", call_text(waiter));
  if (const std::string elsewhere = elsewhere_text(rank); !elsewhere.empty()) return text + elsewhere;
  const std::string since = time_text(its.still_ms);
  if (its.entered == 0) return text + fmt::format("it has made no call yet, for {}", since);
  if (its.left < its.entered) return text + fmt::format("it is in {}, for {}", call_text(its), since);
  return text + fmt::format("its last call was {}, and it has made none for {}", call_text(its), since);
}

/// A graph of the ranks of communicators: for which others each one waits, also through a process that waits in another
/// communicator.
class Judged {
 public:
  explicit Judged(std::vector<const KnownCommunicator*> all) : all_(std::move(all)), nodes_(all_.size()) {
    for (size_t c = 0; c < all_.size(); ++c) {
      for (const auto& [rank, known] : all_[c]->ranks) node_of(c, rank);
    }
    const size_t told = known_.size();  // those that nobody but their waiters knows come last
    for (size_t node = 0; node < told; ++node) {
      if (waits(known_[node].known)) {
        add_awaited(node);
      } else if (const RankStatus* const other = waits_instead(known_[node].known)) {
        add_link(node, *other);
      }
    }
    on_.resize(known_.size());
  }
  std::vector<std::string> verdicts() const {
    std::vector<std::string> all;
    for (const WaitGroup& group : wait_groups(on_)) {
      const bool some =
          std::any_of(group.waiting.begin(), group.waiting.end(), [&](uint32_t node) { return is_waiter(node); });
      if (some) all.push_back(verdict(group));  // else ranks for which nobody waits
    }
    return all;
  }

 private:
  struct Node {
    size_t communicator = 0;  // of all_
    Rank rank = 0;
    Known known;
  };

  bool is_waiter(uint32_t node) const { return waits(known_[node].known); }
  const KnownCommunicator& of(uint32_t node) const { return *all_[known_[node].communicator]; }

  uint32_t node_of(size_t communicator, Rank rank) {
    const auto [at, fresh] = nodes_[communicator].emplace(rank, static_cast<uint32_t>(known_.size()));
    if (!fresh) return at->second;
    const auto& ranks = all_[communicator]->ranks;
    const auto known = ranks.find(rank);
    known_.push_back({communicator, rank, known == ranks.end() ? Known{} : known->second});
    on_.emplace_back();
    return at->second;
  }
  void add_awaited(size_t node) {
    const RankStatus& waiter = *known_[node].known.status;
    for (const Rank awaited : waiter.awaited) {
      const bool is_one = awaited >= 0 && awaited < waiter.ranks && known_.size() < 2 * kMaxJudged;  // a peer's numbers
      if (!is_one) continue;
      const uint32_t next = node_of(known_[node].communicator, awaited);
      on_[node].push_back(next);
    }
  }
  void add_link(size_t node, const RankStatus& other) {
    for (size_t c = 0; c < all_.size(); ++c) {
      if (all_[c]->name != other.communicator) continue;
      const auto found = nodes_[c].find(other.rank);
      if (found != nodes_[c].end()) on_[node].push_back(found->second);
    }
  }

  std::string list(const Nodes& nodes, const KnownCommunicator* by = nullptr) const;
  std::string links(const WaitGroup& group) const;
  std::string end_text(const WaitGroup& group, const Nodes& end, const KnownCommunicator& first) const;
  std::string verdict(const WaitGroup& group) const;

  const std::vector<const KnownCommunicator*> all_;
  std::vector<std::map<Rank, uint32_t>> nodes_;  // by communicator
  std::vector<Node> known_;
  std::vector<Nodes> on_;
};

/// Of these those that wait themselves: "world: ranks 0, 1"; of several communicators, or of another one than `by`:
/// "ranks 0, 1 of world, rank 2 of row".
std::string Judged::list(const Nodes& nodes, const KnownCommunicator* by) const {
  std::map<size_t, std::vector<Rank>> ranks;
  for (const uint32_t node : nodes) {
    if (is_waiter(node)) ranks[known_[node].communicator].push_back(known_[node].rank);
  }
  if (ranks.size() == 1 && (by == nullptr || all_[ranks.begin()->first] == by)) {
    return (by == nullptr ? all_[ranks.begin()->first]->title + ": " : "") + list_ranks(ranks.begin()->second);
  }
  std::vector<std::string> parts;
  for (const auto& [communicator, its] : ranks) parts.push_back(list_ranks(its) + " of " + all_[communicator]->title);
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// " (through rank 2 of world, process 4711 on b, which waits as rank 1 of row)".
std::string Judged::links(const WaitGroup& group) const {
  constexpr size_t kTold = 3;
  std::vector<std::string> all;
  for (const uint32_t node : group.waiting) {
    if (is_waiter(node) || on_[node].empty()) continue;
    if (all.size() == kTold) {
      all.push_back("others");
      break;
    }
    const uint32_t next = on_[node].front();
    const JobProcess& process = *known_[node].known.process;
    all.push_back(fmt::format("rank {} of {}, whose process {} on {} waits as rank {} of {}", known_[node].rank,
                              of(node).title, process.process, process.host, known_[next].rank, of(next).title));
  }
  return all.empty() ? "" : fmt::format(" (through {})", fmt::join(all, "; "));
}

std::string Judged::end_text(const WaitGroup& group, const Nodes& end, const KnownCommunicator& first) const {
  if (end.size() > 1) return list(end, &first) + ", which seem to wait for each other";
  const Node& node = known_[end.front()];
  const KnownCommunicator& its = of(end.front());
  const auto waiter = std::find_if(group.waiting.begin(), group.waiting.end(),
                                   [&](uint32_t other) { return is_waiter(other) && &of(other) == &its; });
  const bool others =
      std::any_of(group.waiting.begin(), group.waiting.end(), [&](uint32_t other) { return &of(other) != &its; });
  const JobProcess* const process = node.known.process;
  const RankStatus* const by = waiter == group.waiting.end() ? node.known.status : known_[*waiter].known.status;
  return fmt::format("rank {}{}{}, {}", node.rank, others ? " of " + its.title : "",
                     process == nullptr ? "" : fmt::format(" (process {} on {})", process->process, process->host),
                     by == nullptr ? "of which nothing is known" : reason(node.known, *by));
}

std::string Judged::verdict(const WaitGroup& group) const {
  const std::string who = list(group.waiting);
  if (group.ends.front() == group.waiting) return who + " seem to wait for each other" + links(group);
  const auto first =
      *std::find_if(group.waiting.begin(), group.waiting.end(), [&](uint32_t n) { return is_waiter(n); });
  constexpr size_t kTold = 8;
  std::vector<std::string> ends;
  for (const Nodes& end : group.ends) {
    if (ends.size() < kTold) ends.push_back(end_text(group, end, of(first)));
  }
  if (group.ends.size() > kTold) ends.push_back(fmt::format("{} more", group.ends.size() - kTold));
  const auto waiting =
      std::count_if(group.waiting.begin(), group.waiting.end(), [&](uint32_t node) { return is_waiter(node); });
  return fmt::format("{} {}, directly or not, for {}{}", who, waiting == 1 ? "waits" : "wait",
                     fmt::join(ends, "; and for "), links(group));
}

bool some_wait(const KnownCommunicator& of) {
  return std::any_of(of.ranks.begin(), of.ranks.end(), [](const auto& rank) { return waits(rank.second); });
}

}  // namespace

std::vector<std::string> verdicts(const JobStatus& job) {
  std::vector<std::string> all;
  const auto known = communicators(job);
  std::vector<std::vector<const KnownCommunicator*>> judged(1);  // of those in one list waits are followed through all
  size_t together = 0;
  for (const KnownCommunicator& of : known) {
    if (!some_wait(of)) continue;
    if (of.ranks.size() > kMaxJudged) {
      all.push_back(of.title + ": some rank waits; the communicator has too many ranks to say for whom in the end");
      continue;
    }
    if (together + of.ranks.size() > kMaxJudged) {
      judged.emplace_back();
      together = 0;
    }
    judged.back().push_back(&of);
    together += of.ranks.size();
  }
  for (std::vector<const KnownCommunicator*>& some : judged) {
    for (std::string& one : Judged(std::move(some)).verdicts()) all.push_back(std::move(one));
  }
  for (const JobProcess& process : job.processes) {
    all.insert(all.end(), process.status.slow.begin(), process.status.slow.end());
  }
  return all;
}

}  // namespace tutti::control
