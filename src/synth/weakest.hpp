// Which link's loss costs a machine the most.
#pragma once

#include <vector>

#include "synth/bound.hpp"
#include "topo/graph.hpp"

namespace tutti::synth {

/// A link, and the bound without it.
struct Loss {
  topo::NodeId a = topo::kNoNode, b = topo::kNoNode;
  double gbps = 0;     ///< of the link; of all links between the two nodes
  double times = 1;    ///< the bound without it, by that with it
  bool apart = false;  ///< without it, some ranks cannot reach each other
};

/// The machine without the links between these two nodes.
topo::Graph without_link(topo::Graph graph, const Loss& loss);

inline constexpr size_t kMaxLosses = 1024;  ///< links that are tried

/// Of all links that messages between these ranks use, and of each the bound without it: the worst first. Messages then
/// take other paths, which links may have that were idle. Throws as bound_of(), and Error(Unsupported) for more than
/// kMaxLosses links.
std::vector<Loss> losses(const topo::Graph& graph, const std::vector<topo::NodeId>& nodes, Collective collective);

}  // namespace tutti::synth
