#include "topo/host_figures.hpp"

#include <algorithm>

namespace tutti::topo {

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
