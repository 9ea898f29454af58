// The topology of all ranks of a communicator.
#pragma once

#include <functional>
#include <span>

#include "base/deadline.hpp"
#include "control/endpoint.hpp"
#include "topo/graph.hpp"

namespace tutti::comm {

/// All ranks' hosts as one graph, and in it the ranks. Collective, one exchange; equal on all ranks. The lowest rank of
/// each host describes it: `mine` is called there only, and may take long (topo::local_topology). `cores`: by rank,
/// those that it may run on. Throws Error(ProtocolError), which names the rank, for an invalid description, and what
/// Endpoint::exchange throws. If a host cannot be described, it is a host of unknown parts, with a note that says why.
topo::Graph exchange_topology(control::Endpoint& endpoint, std::span<const Cores> cores,
                              const std::function<const topo::Graph&()>& mine, Deadline deadline);

}  // namespace tutti::comm
