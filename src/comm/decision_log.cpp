#include "comm/decision_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "select/explain.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;
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

std::string groups_text(const plan::Grouping& groups) {
  if (!groups.has_two_levels()) return "none";
  std::string text;
  for (Rank group = 0; group < groups.groups(); ++group) {
    const auto members = groups.members(group);
    text += fmt::format("{}[{}]", text.empty() ? "" : " ", ranges({members.begin(), members.end()}));
  }
  return fmt::format("{} ranks in {} groups, of {} to {}: {}", groups.ranks(), groups.groups(), groups.smallest(),
                     counted(static_cast<uint64_t>(groups.largest()), "rank"), text);
}

/// "all_reduce: one_shot below 24K, ring".
std::string algorithms_text(const select::DecisionTable& table) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const json& row : json::parse(table.text())) {
    const auto collective = row.at(0).get<std::string>(), algorithm = row.at(2).get<std::string>();
    const uint64_t below = row.at(1).get<uint64_t>();
    if (lines.empty() || lines.back().first != collective) lines.push_back({collective, ""});
    std::string& line = lines.back().second;
    line += (line.empty() ? "" : ", ") + algorithm;
    if (below != ~uint64_t{0}) line += " below " + to_text(Bytes{below});
  }
  std::string text;
  for (const auto& [collective, line] : lines) text += fmt::format("\n    {}: {}", collective, line);
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

std::string summary(const control::Endpoint& endpoint, const Fabric& fabric, const plan::Grouping& groups,
                    const Agreement& agreed) {
  ByRanks staging;
  for (size_t r = 0; r < agreed.reports.size(); ++r) {
    staging[to_text(Bytes{agreed.reports[r].fabric.arena})].push_back(static_cast<Rank>(r));
  }
  return fmt::format(
      "communicator of {} (tutti {})\n  ranks: {}{}\n  others' buffers: {}\n  groups: {}\n  staging memory of a "
      "rank: {}\n  waiting: {}\n  algorithms, by bytes of a block:{}",
      counted(static_cast<uint64_t>(endpoint.ranks()), "rank"), version(), hosts_text(endpoint, agreed.reports),
      transports_text(agreed.reports, fabric), read_access_text(agreed.capabilities.reading), groups_text(groups),
      text_of(staging),
      agreed.capabilities.oversubscribed ? "ranks share cores and yield to each other"
                                         : "every rank has a core and spins on it",
      algorithms_text(agreed.table));
}

/// Why this algorithm: which setting forces it, or its time and the next best one's, measured ones if there are any.
std::string DecisionLog::why(const CallSpec& spec, const CallInfo& info) const {
  const std::string collective = name_of(spec.collective), &algorithm = info.algorithm;
  if (spec.is_vector || spec.collective == Collective::SendRecv)
    return "only the sender and the receiver know its length";
  if (setting_.given.count(spec.collective) > 0) return "TUTTI_PLAN provides it";
  if (setting_.forced.count(collective) > 0) return "TUTTI_ALGO forces it";
  if (info.delivery == kCopied) return "the one that copy engines can run";
  if (info.delivery == kMultimem) return "the one that switches can run";
  std::string mine, next;
  bool measured = false;
  for (const auto& candidate : select::candidates(spec.collective, spec.count * size_of(spec.type), setting_)) {
    if (!candidate.rejected.empty()) continue;
    const std::string text = fmt::format("{} {}", candidate.algorithm->name, time_text(candidate.seconds));
    if (candidate.algorithm->name == algorithm) {
      mine = text;
      measured = candidate.measured.has_value();
    } else if (next.empty()) {
      next = text;
    }
  }
  return next.empty() ? "no other algorithm can do it"
                      : fmt::format("the {} says {}, next {}", measured ? "profile" : "model", mine, next);
}

/// The table of all candidates, once for a collective and size class.
void DecisionLog::explain(const CallSpec& spec, uint64_t bytes, const CallInfo& info) {
  if (spec.is_vector || spec.collective == Collective::SendRecv) return;
  if (!explained_.emplace(spec.collective, std::bit_width(bytes)).second) return;
  std::string instead;
  if (info.delivery == kCopied || info.delivery == kMultimem) {
    instead = fmt::format("\nThat is what would run. {} runs instead: {} (TUTTI_CUDA_WIRE={})", info.algorithm,
                          info.why, info.delivery == kCopied ? "copy" : "multimem");
  }
  log_info("why {} ({}):\n{}{}", describe(spec), setting_.situation,
           select::explanation(select::priced_candidates(spec.collective, bytes, setting_)), instead);
}

void DecisionLog::log_first(const CallSpec& spec, const CallInfo& info) {
  const uint64_t bytes = spec.count * size_of(spec.type);
  if (!logged_.insert({spec.collective, std::bit_width(bytes), info.algorithm + " " + info.delivery}).second) return;
  if (rank_ == 0 && env().explain) explain(spec, bytes, info);
  log_debug("rank {}: first {}: {} over {} ({}); {} ({})", rank_, describe(spec), info.algorithm, info.transport,
            why(spec, info), info.delivery, info.why);
}

}  // namespace tutti::comm
