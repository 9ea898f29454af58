// The machine that a plan is for.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/scene.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

struct Machine {
  topo::Graph graph;
  std::vector<topo::NodeId> nodes;  ///< by rank
};

/// That of the options, with those of its ranks alone that `named` has ("": all). Throws Error(InvalidArgument).
Machine machine_of(const SceneOptions& scene, const std::string& named);

}  // namespace tutti::tools
