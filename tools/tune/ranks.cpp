#include "tools/tune/ranks.hpp"

#include "tools/perf/options.hpp"
#include "topo/cgroup.hpp"

namespace tutti::tools {

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
