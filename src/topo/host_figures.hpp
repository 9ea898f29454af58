// A job's figures of messages between two certain hosts (Figure::a and b), by these hosts.
//
// Each is of what joins the two, which no other hosts use: a cable, or a slow way through the network. What all
// messages of a host share is in the links of its NICs.
#pragma once

#include <map>
#include <utility>

#include "topo/graph.hpp"

namespace tutti::topo {

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

}  // namespace tutti::topo
