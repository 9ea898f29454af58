#include "tools/tune/checks.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/env.hpp"
#include "base/format.hpp"
#include "tools/perf/options.hpp"
#include "topo/cgroup.hpp"

namespace tutti::tools {

void refuse_what_changes_times(const std::vector<std::string>& exported) {
  const auto changes_times = [](std::string_view name) {
    constexpr std::string_view kNames[] = {"TUTTI_TRANSPORT",    "TUTTI_GROUPS",  "TUTTI_PLAN",  "TUTTI_METHOD",
                                           "TUTTI_REPRODUCIBLE", "TUTTI_THREADS", "TUTTI_ORDER", "TUTTI_CMA",
                                           "TUTTI_MESSAGE",      "TUTTI_ARENA",   "TUTTI_SYNTH"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  };
  for (const std::string& variable : exported) {
    const std::string name = variable.substr(0, variable.find('='));
    if (!changes_times(name) && name != "TUTTI_ALGO" && name != "TUTTI_PROFILE") continue;
    throw_error(Code::InvalidArgument, "-x {}: each measurement sets it, or wants it unset; leave it out", variable);
  }
  for (const EnvRow& row : env_table()) {
    const char* const given = given_variable(row.name);
    if (given == nullptr || !changes_times(row.name) || row.value(env()) == row.fallback) continue;
    throw_error(Code::InvalidArgument, "{}={} would be measured, but a profile is used without it too; unset it",
                row.name, given);
  }
}

std::vector<Placement> near(const std::vector<Placement>& ranks, size_t most) {
  std::vector<Placement> found;
  for (const Placement& rank : ranks) {
    if (rank.host == ranks.front().host && found.size() < most) found.push_back(rank);
  }
  for (Placement& rank : found) rank.local_size = static_cast<int>(found.size());
  return found;
}

void check_room(const std::vector<Cell>& cells, const std::vector<Placement>& ranks) {
  const PerfRow largest{.bytes = buffer_bytes(cells, static_cast<Rank>(ranks.size()))};
  check_memory({largest}, near(ranks, ranks.size()).size(), available_memory(), "this host");
}

}  // namespace tutti::tools
