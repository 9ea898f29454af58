#include "control/paths.hpp"

#include <algorithm>
#include <utility>

#include "base/env.hpp"
#include "topo/ports.hpp"

namespace tutti::control {

std::vector<NumaPath> paths_to(const std::vector<Address>& addresses) {
  const std::vector<Address> mine = local_addresses();
  std::vector<NumaPath> paths;
  for (const Address& to : addresses) {
    if (to.is_loopback()) continue;
    const std::optional<Address> from = source_towards(to);
    // Bridges of container managers have the same address on many hosts: then the way would lead here.
    if (!from || *from == to || std::find(mine.begin(), mine.end(), *from) == mine.end()) continue;
    const std::string name = interface_of(*from);
    const auto same = [&](const NumaPath& known) { return known.path.interface == name; };
    if (name.empty() || std::any_of(paths.begin(), paths.end(), same)) continue;
    const topo::PortReport port = topo::read_interface(name);
    paths.push_back({{name, *from, to, port.mbps}, port.numa});
  }
  std::stable_sort(paths.begin(), paths.end(),
                   [](const NumaPath& a, const NumaPath& b) { return a.path.mbps > b.path.mbps; });
  if (paths.empty()) return paths;
  const double fastest = paths.front().path.mbps;
  if (fastest == 0 && env().interfaces.empty()) paths.resize(1);
  std::erase_if(paths, [&](const NumaPath& p) { return p.path.mbps < fastest / 2; });
  return paths;
}

std::vector<transports::Path> share_out(const std::vector<NumaPath>& paths, int numa, const topo::HostPlace& place) {
  std::vector<int> nodes;
  for (const NumaPath& path : paths) nodes.push_back(path.numa);
  std::vector<transports::Path> mine;
  for (const size_t i : topo::share_out(nodes, numa, place)) mine.push_back(paths[i].path);
  return mine;
}

}  // namespace tutti::control
