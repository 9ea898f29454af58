#include "topo/share.hpp"

#include <algorithm>

namespace tutti::topo {

std::vector<size_t> share_out(const std::vector<int>& nodes, int numa, const HostPlace& place) {
  std::vector<size_t> usable;
  const bool any_near = numa >= 0 && std::find(nodes.begin(), nodes.end(), numa) != nodes.end();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!any_near || nodes[i] == numa) usable.push_back(i);
  }
  std::vector<size_t> mine;
  if (usable.empty()) return mine;
  const size_t count = std::max<size_t>(1, usable.size() / static_cast<size_t>(std::max(1, place.ranks)));
  const size_t first = static_cast<size_t>(place.index) * count;
  for (size_t i = 0; i < count; ++i) mine.push_back(usable[(first + i) % usable.size()]);
  return mine;
}

}  // namespace tutti::topo
