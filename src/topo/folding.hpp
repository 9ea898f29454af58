// NVLink switches that fold and multicast what several GPUs have (NVLink SHARP; NCCL: NVLS).
#pragma once

#include <span>
#include <string>

#include "topo/graph.hpp"

namespace tutti::topo {

inline constexpr int kFirstFoldedSm = 90;  ///< the compute capability of GPUs whose NVLink switches fold: 9.0

/// Why NVLink switches neither fold nor multicast what these GPUs have, if such switches join them; "": they do.
std::string why_no_fold(const Graph& graph, std::span<const NodeId> gpus);

}  // namespace tutti::topo
