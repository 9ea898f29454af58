#include "topo/host_figures.hpp"

namespace tutti::topo {

Nics nics_of(const Graph& graph, NodeId from, NodeId to, const Path& path) {
  Nics nics{from, to};
  for (const uint32_t i : path.links) {
    const Link& link = graph.links[i];
    const bool at_a = graph.nodes[link.a].kind == NodeKind::Fabric, at_b = graph.nodes[link.b].kind == NodeKind::Fabric;
    if (at_a == at_b) continue;
    const NodeId nic = at_a ? link.b : link.a, host = graph.host_of(nic);
    if (host == from) nics.leaves = nic;
    if (host == to) nics.enters = nic;
  }
  return nics;
}

HostFigures::HostFigures(const Graph& graph) {
  for (const Figure& figure : graph.figures) {
    if (figure.between == Figure::Between::Hosts && figure.a != kNoNode) {
      figures_.emplace(std::minmax(figure.a, figure.b), &figure);
    }
  }
}

const Figure* HostFigures::of(NodeId host, NodeId other) const {
  const auto found = figures_.find(std::minmax(host, other));
  return found == figures_.end() ? nullptr : found->second;
}

}  // namespace tutti::topo
