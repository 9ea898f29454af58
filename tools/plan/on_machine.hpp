// A plan over the picture of a machine: how busy it makes each link, the cut that binds, and its trees.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

struct OnMachine {
  const topo::Graph* graph = nullptr;
  std::vector<topo::NodeId> nodes;  ///< by rank
  Rank root = 0;
  size_t tree = 0;  ///< that is drawn over the machine, from 0 on
};

/// An SVG. `plans`: of all ranks, verified, for as many ranks as there are nodes. Throws what synth::network_of()
/// throws, and Error(InvalidArgument) where there is no such tree.
std::string draw_on_machine(std::span<const plan::RankPlan> plans, const std::string& title, const OnMachine& machine);

}  // namespace tutti::tools
