// Puts a host's packages, NUMA nodes, core complexes and cores into each other, and links them.
#pragma once

#include <vector>

#include "topo/graph.hpp"
#include "topo/link_figures.hpp"

namespace tutti::topo {

/// Adds `areas` (packages, NUMA nodes, complexes, cores; parents unset) to a host, by which processors they have, with
/// links among them. Where no package and no NUMA node is known, one package is assumed.
void add_processors(Graph& graph, NodeId host, std::vector<Node> areas, const ProcessorId& processor);

/// Where devices near these processors are plugged in: the smallest NUMA node or package that has them all. If that is
/// none, the host's first one; then `sure` is false.
struct DeviceRoot {
  NodeId node = kNoNode;
  bool sure = true;
};
DeviceRoot device_root(const Graph& graph, NodeId host, const Cores& near);

}  // namespace tutti::topo
