#include "topo/folding.hpp"

#include <algorithm>

#include "base/env.hpp"

namespace tutti::topo {

std::string why_no_fold(const Graph& graph, std::span<const NodeId> gpus) {
  const auto folds = [&](NodeId node) { return graph.nodes[node].sm >= kFirstFoldedSm; };
  if (!std::all_of(gpus.begin(), gpus.end(), folds)) {
    return "NVLink switches fold for GPUs of compute capability 9.0 and later";
  }
  return env().nvls ? "" : "TUTTI_NVLS is off";
}

}  // namespace tutti::topo
