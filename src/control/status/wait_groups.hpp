// Where chains of waits lead: to nodes that do not wait, or round circles.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::control {

using Nodes = std::vector<uint32_t>;

/// Nodes from which all chains lead to the same ends.
struct WaitGroup {
  Nodes waiting;
  /// Each is one node that does not wait, or several that wait for each other. A circle's own nodes are a group, with
  /// that end alone.
  std::vector<Nodes> ends;
  bool operator==(const WaitGroup&) const = default;
};

/// `on`: for which nodes each node waits. One that waits for none, or for itself alone, is an end. Nodes are in the
/// order of their numbers, groups in that of their ends.
///
/// Strongly connected components (Tarjan, Depth-First Search and Linear Graph Algorithms, 1972), and for each the set
/// of ends that it leads to: linear in waits times ends.
std::vector<WaitGroup> wait_groups(const std::vector<Nodes>& on);

}  // namespace tutti::control
