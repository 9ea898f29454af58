// Graphs from files that leave NVLink out, as those that clouds publish for their machine types do: NCCL finds NVLinks
// when it runs.
#pragma once

#include "topo/graph.hpp"

namespace tutti::topo {

/// Adds a note for each host with several GPUs of a kind that NVLink joins, and no NVLink.
void note_missing_nvlink(Graph& graph);

/// Joins all GPUs of each host by NVSwitches: `gbps` GB/s of each GPU, in each direction. Removes those notes. Throws
/// Error(InvalidArgument) where no host has several GPUs, or one has NVLinks already.
void add_nvlink(Graph& graph, double gbps);

}  // namespace tutti::topo
