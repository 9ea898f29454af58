// The topology of a job: its hosts as one graph, and in it the communicator's ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "control/endpoint.hpp"
#include "topo/graph.hpp"

namespace tutti::comm {

/// What a rank tells of its place.
struct PlaceReport {
  Cores cores;        ///< on which it may run
  uint64_t kind = 0;  ///< of its host: equal for hosts that are alike (topo::hash_of); 0: unknown
  std::string host;   ///< the host's name
};

/// The kind of this host, by its kept topology; 0 where it cannot be described. Cheap but for a process's first time.
uint64_t kind_of_this_host();
/// The same with its GPUs, by topo::gpu_topology().
uint64_t kind_with_gpus();

/// The graph, on rank 0; empty on others. Collective: where hosts are not of rank 0's kind, one of each kind describes
/// them in an exchange. `mine` is this host's topology (topo::kept_topology), and is asked for only where it is needed.
/// Throws Error(ProtocolError), which names the rank, for an invalid description, and what Endpoint::exchange throws. A
/// host that cannot be described is one of unknown parts, with a note that says so.
topo::Graph job_topology(control::Endpoint& endpoint, const std::vector<PlaceReport>& places,
                         const std::function<const topo::Graph&()>& mine, Deadline deadline);

}  // namespace tutti::comm
