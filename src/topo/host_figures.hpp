// A job's figures of messages between two certain hosts (Figure::a and b), by these hosts.
//
// Each is of what joins the two, which no other hosts use: a cable, or a slow way through the network. What all
// messages of a host share is in the links of its NICs.
//
// A figure is what messages between two ranks reach, and a message leaves its host by one NIC and comes to the other
// by one. So it is shared by all messages that leave by one NIC for a certain host, and by all that come from a certain
// host by one NIC; other NICs of the two hosts reach as much at the same time.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "topo/graph.hpp"
#include "topo/paths.hpp"

namespace tutti::topo {

/// What messages between two hosts pass: a NIC at each end. Where none is known, the host itself.
struct Nics {
  NodeId leaves = kNoNode, enters = kNoNode;
};
/// On the way of a message between ranks of these hosts.
Nics nics_of(const Graph& graph, NodeId from, NodeId to, const Path& path);

/// Messages that share a figure: a NIC and the host that they go to, or a host and the NIC that they come by.
using SharedFigure = std::pair<NodeId, NodeId>;
/// Those that a message between ranks of these hosts is one of.
inline std::array<SharedFigure, 2> shared_figures(NodeId from, NodeId to, Nics nics) {
  return {SharedFigure(nics.leaves, to), SharedFigure(from, nics.enters)};
}

class HostFigures {
 public:
  /// Keeps no copy: the graph must outlive it. Of several figures of the same hosts, the first one counts.
  explicit HostFigures(const Graph& graph);
  /// Null: there is none.
  const Figure* of(NodeId host, NodeId other) const;
  bool empty() const { return figures_.empty(); }

 private:
  std::map<std::pair<NodeId, NodeId>, const Figure*> figures_;  // the lower host first
};

/// NICs of two hosts that work at the same time on messages from one to the other, of so many that their ranks use:
/// how many times a figure the two hosts reach together.
inline size_t nics_at_once(size_t of_host, size_t of_other) { return std::max<size_t>(1, std::min(of_host, of_other)); }

}  // namespace tutti::topo
