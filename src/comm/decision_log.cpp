#include "comm/decision_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "select/explain.hpp"
#include "select/synthesis.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

using ByRanks = std::map<std::string, std::vector<Rank>>;  // a fact, and the ranks of which it is true

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3);
}

/// "8M"; where ranks differ, "8M (ranks 0, 2-5), 64K (rank 1)".
std::string text_of(const ByRanks& facts) {
  if (facts.size() == 1) return facts.begin()->first;
  std::string text;
  for (const auto& [fact, ranks] : facts) {
    text +=
        fmt::format("{}{} (rank{} {})", text.empty() ? "" : ", ", fact, ranks.size() == 1 ? "" : "s", ranges(ranks));
  }
  return text;
}

std::string hosts_text(const control::Endpoint& endpoint, const std::vector<RankReport>& reports) {
  std::vector<std::pair<std::string, std::vector<Rank>>> hosts;  // identity and ranks; ordered by first rank
  for (Rank r = 0; r < endpoint.ranks(); ++r) {
    const std::string& host = endpoint.process_id(r).host;
    auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& one) { return one.first == host; });
    if (known == hosts.end()) known = hosts.insert(hosts.end(), {host, {}});
    known->second.push_back(r);
  }
  std::string text;
  for (const auto& [host, ranks] : hosts) {
    std::set<std::pair<uint32_t, uint64_t>> processes;
    for (const Rank r : ranks) processes.emplace(endpoint.process_id(r).process, endpoint.process_id(r).nonce);
    text += fmt::format("{}{} on {} ({})", text.empty() ? "" : "; ", ranges(ranks),
                        reports[static_cast<size_t>(ranks.front())].host,
                        processes.size() == 1 ? "1 process" : fmt::format("{} processes", processes.size()));
  }
  return text;
}

/// One line for each relation between ranks: the transport, and why no better one.
std::string transports_text(const std::vector<RankReport>& reports, const Fabric& fabric) {
  std::map<std::string, ByRanks> relations;
  for (size_t r = 0; r < reports.size(); ++r) {
    for (const auto& [relation, transport] : reports[r].fabric.routes) {
      relations[relation][transport].push_back(static_cast<Rank>(r));
    }
  }
  std::string text;
  for (const auto& [relation, facts] : relations) {
    const std::string why = fabric.why_no_better(relation);
    text += fmt::format("\n  {}: {}{}", relation, text_of(facts), why.empty() ? "" : fmt::format(" ({})", why));
  }
  return text;
}

std::string groups_text(const plan::Grouping& groups, bool by_cache) {
  if (!groups.has_two_levels()) return "none";
  std::string text;
  for (Rank group = 0; group < groups.groups(); ++group) {
    const auto members = groups.members(group);
    text += fmt::format("{}[{}]", text.empty() ? "" : " ", ranges({members.begin(), members.end()}));
  }
  return fmt::format("{} ranks in {} groups{}, of {} to {}: {}", groups.ranks(), groups.groups(),
                     by_cache ? " that share a cache each" : "", groups.smallest(),
                     counted(static_cast<uint64_t>(groups.largest()), "rank"), text);
}

/// "all_reduce: one_shot below 24K, ring".
std::string algorithms_text(const select::DecisionTable& table) {
  std::string text;
  for (int i = 0; i < kCollectives; ++i) {
    const auto& rows = table.rows(static_cast<Collective>(i));
    std::string line;
    for (size_t at = 0; at < rows.size(); ++at) {
      const select::Row& row = rows[at].row;
      const bool same =
          at + 1 < rows.size() && rows[at + 1].row.algorithm == row.algorithm && rows[at + 1].row.method == row.method;
      if (same) continue;  // other windows or deliveries
      line += fmt::format("{}{}", line.empty() ? "" : ", ", select::name_of_algorithm(row));
      if (!row.method->is_on_host()) line += fmt::format(" by {}", row.method->name);
      if (at + 1 < rows.size()) line += " below " + to_text(Bytes{rows[at].below});
    }
    if (!line.empty()) text += fmt::format("\n    {}: {}", name_of(static_cast<Collective>(i)), line);
  }
  return text;
}

const char* read_access_text(transports::ReadAccess reading) {
  switch (reading) {
    case transports::ReadAccess::Direct:
      return "every rank reads every other rank's directly";
    case transports::ReadAccess::Cma:
      return "every rank reads every other rank's through the kernel (CMA)";
    case transports::ReadAccess::None:
      break;
  }
  return "not every rank can read every other rank's; unreadable data is staged";
}

}  // namespace

std::string ranges(const std::vector<Rank>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t first = i;
    while (i + 1 < ranks.size() && ranks[i + 1] == ranks[i] + 1) ++i;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[first]);
    if (i > first) text += fmt::format("{}{}", i == first + 1 ? ", " : "-", ranks[i]);
  }
  return text;
}

std::string summary(const control::Endpoint& endpoint, const Fabric& fabric, const Groups& groups,
                    const Agreement& agreed) {
  ByRanks staging;
  for (size_t r = 0; r < agreed.reports.size(); ++r) {
    staging[to_text(Bytes{agreed.reports[r].fabric.arena})].push_back(static_cast<Rank>(r));
  }
  return fmt::format(
      "communicator of {} (tutti {})\n  ranks: {}{}\n  others' buffers: {}\n  groups: {}\n  staging memory of a "
      "rank: {}\n  waiting: {}\n  algorithms, by bytes of a block:{}",
      counted(static_cast<uint64_t>(endpoint.ranks()), "rank"), version(), hosts_text(endpoint, agreed.reports),
      transports_text(agreed.reports, fabric), read_access_text(agreed.inputs.hand_over.reading),
      groups_text(*agreed.inputs.groups, agreed.inputs.groups != groups), text_of(staging),
      agreed.inputs.hand_over.shares_cores ? "ranks share cores and yield to each other"
                                           : "every rank has a core and spins on it",
      algorithms_text(agreed.table));
}

/// Why this algorithm: which setting forces it, or its time and the next best one's, measured ones if there are any.
std::string DecisionLog::why(const CallSpec& spec, const CallInfo& info) const {
  const std::string collective = name_of(spec.collective), &algorithm = info.algorithm;
  if (spec.is_vector || spec.collective == Collective::SendRecv)
    return "only the sender and the receiver know its length";
  if (inputs_.given.count(spec.collective) > 0) return "TUTTI_PLAN provides it";
  if (inputs_.forced.count(collective) > 0) return "TUTTI_ALGO forces it";
  if (!inputs_.forced_methods.empty() && info.method != inputs_.methods.front().method->name) {
    return "TUTTI_METHOD forces its method";
  }
  std::string mine, next;
  bool measured = false;
  const uint64_t block = spec.count * size_of(spec.type);
  for (const auto& candidate : select::candidates(spec.collective, block, inputs_, {spec.type, spec.op})) {
    if (!candidate.rejected.empty()) continue;
    const std::string name = select::name_of_algorithm(candidate.row);
    const std::string text = fmt::format("{} {}", name, time_text(candidate.seconds));
    if (name == algorithm && candidate.row.method->name == info.method) {
      mine = text;
      measured = candidate.measured.has_value();
    } else if (next.empty()) {
      next = text;
    }
  }
  return next.empty() ? "no other algorithm can do it"
                      : fmt::format("the {} says {}, next {}", measured ? "profile" : "model", mine, next);
}

/// That of the figures that this communicator has: what is kept with plans was made with those of another time.
void DecisionLog::take_bound(Collective collective) {
  if (!bounded_.insert(collective).second) return;
  try {
    select::add_bound(graph_, graph_.ranks, collective, {}, inputs_);
  } catch (const std::exception& error) {  // the call needs none
    log_debug("no bound of {} is known: {}", name_of(collective), error.what());
  }
}

/// The table of all candidates, once for a collective and size class.
void DecisionLog::explain(const CallSpec& spec, uint64_t bytes) {
  if (spec.is_vector || spec.collective == Collective::SendRecv) return;
  if (!explained_.emplace(spec.collective, std::bit_width(bytes)).second) return;
  take_bound(spec.collective);
  const auto all = select::priced_candidates(spec.collective, bytes, inputs_, {spec.type, spec.op});
  log_info("why {} ({}):\n{}{}{}", describe(spec), inputs_.situation, machine_, machine_.empty() ? "" : "\n",
           select::explanation(all, bytes, inputs_));
}

void DecisionLog::log_first(const CallSpec& spec, const CallInfo& info) {
  const uint64_t bytes = spec.count * size_of(spec.type);
  if (!logged_.insert({spec.collective, std::bit_width(bytes), info.algorithm + " " + info.delivery}).second) return;
  if (rank_ == 0 && env().explain) explain(spec, bytes);
  log_debug("rank {}: first {}: {} by {} over {} ({}); {} ({})", rank_, describe(spec), info.algorithm, info.method,
            info.transport, why(spec, info), info.delivery, info.why);
}

}  // namespace tutti::comm
