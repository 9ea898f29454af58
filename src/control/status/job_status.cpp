#include "control/status/job_status.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "control/describe.hpp"

namespace tutti::control {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kLook = 1000;  // milliseconds between two looks at what has changed

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

/// Where chains of waits lead from a rank.
struct Reached {
  std::set<Rank> ends;  ///< ranks that do not wait, or of which it is not known for whom
  std::set<Rank> all;   ///< and those on the way, but `first` only if a chain leads back to it
};
Reached reached_from(const Ranks& ranks, Rank first) {
  Reached reached;
  const std::vector<Rank>& direct = ranks.at(first).status->awaited;
  std::vector<Rank> todo(direct.begin(), direct.end());
  if (direct.empty()) reached.ends.insert(first);
  while (!todo.empty()) {
    const Rank at = todo.back();
    todo.pop_back();
    if (!reached.all.insert(at).second) continue;
    const auto found = ranks.find(at);
    if (found == ranks.end() || !waits(found->second) || found->second.status->awaited.empty()) {
      reached.ends.insert(at);
      continue;
    }
    for (const Rank next : found->second.status->awaited) todo.push_back(next);
  }
  return reached;
}

std::string verdict(const Ranks& ranks, const std::vector<Rank>& waiting, const Reached& reached) {
  const RankStatus& waiter = *ranks.at(waiting.front()).status;
  if (reached.ends.empty()) {
    const std::vector<Rank> circle(reached.all.begin(), reached.all.end());
    if (circle == waiting) return fmt::format("{}: {} seem to wait for each other", waiter.title, list_ranks(waiting));
    return fmt::format("{}: {} {} for {}, which seem to wait for each other", waiter.title, list_ranks(waiting),
                       waiting.size() == 1 ? "waits" : "wait", list_ranks(circle));
  }
  std::vector<std::string> causes;
  for (const Rank end : reached.ends) {
    const auto found = ranks.find(end);
    const Known known = found == ranks.end() ? Known{} : found->second;
    const std::string where =
        known.process == nullptr ? "" : fmt::format(" (process {} on {})", known.process->process, known.process->host);
    causes.push_back(fmt::format("rank {}{}, {}", end, where, reason(known, waiter)));
  }
  return fmt::format("{}: {} {}, directly or not, for {}", waiter.title, list_ranks(waiting),
                     waiting.size() == 1 ? "waits" : "wait", fmt::join(causes, "; and for "));
}

ordered_json to_page(const RankStatus& rank) {
  ordered_json page{{"communicator", rank.communicator.substr(0, 8)},
                    {"title", rank.title},
                    {"rank", rank.rank},
                    {"ranks", rank.ranks},
                    {"entered", rank.entered},
                    {"left", rank.left},
                    {"transfers", rank.transfers},
                    {"call", rank.call},
                    {"call_is_transfer", rank.is_transfer != 0},
                    {"still_seconds", rank.still_ms / 1e3}};
  if (rank.stuck_ms > 0) {
    page["waits_seconds"] = rank.stuck_ms / 1e3;
    page["waits_for"] = rank.awaited;
  }
  if (!rank.failure.empty()) page["failure"] = rank.failure;
  return page;
}

}  // namespace

std::vector<std::string> verdicts(const JobStatus& job) {
  std::vector<std::string> all;
  for (const auto& [name, ranks] : communicators(job)) {
    // By the ends, or, where chains lead round a circle, by all that they reach: that is the same for its ranks.
    std::map<std::pair<std::set<Rank>, bool>, std::pair<Reached, std::vector<Rank>>> causes;
    for (const auto& [rank, known] : ranks) {
      if (!waits(known)) continue;
      Reached reached = reached_from(ranks, rank);
      const bool on_circle = reached.ends.empty() && reached.all.contains(rank);
      auto& cause = causes[{reached.ends.empty() ? reached.all : reached.ends, on_circle}];
      cause.first = std::move(reached);
      cause.second.push_back(rank);
    }
    for (const auto& [key, cause] : causes) all.push_back(verdict(ranks, cause.second, cause.first));
  }
  return all;
}

std::string to_json(const JobStatus& job) {
  ordered_json page{{"tutti_status", kStatusFormat}, {"host", job.host}, {"process", job.process}};
  page["processes"] = ordered_json::array();
  for (const JobProcess& process : job.processes) {
    const char* const states[] = {"answers", "silent", "gone"};
    ordered_json one{
        {"host", process.host}, {"process", process.process}, {"state", states[static_cast<size_t>(process.state)]}};
    one["ranks"] = ordered_json::array();
    if (process.state == JobProcess::State::Answers) {
      one["version"] = process.status.version;
      for (const RankStatus& rank : process.status.ranks) one["ranks"].push_back(to_page(rank));
      if (process.status.omitted > 0) one["omitted"] = process.status.omitted;
    } else {
      for (const KnownRank& known : process.known) {
        one["ranks"].push_back(
            {{"communicator", known.communicator.substr(0, 8)}, {"title", known.title}, {"rank", known.rank}});
      }
    }
    page["processes"].push_back(std::move(one));
  }
  page["verdicts"] = verdicts(job);
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::control
