// A machine without some of its parts: what is left when a link, a NIC or a GPU has failed, or of which only some ranks
// take part.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace tutti::topo {

/// Without these nodes, what lies in them, and their links; hosts that then hold neither GPU nor core (and did before)
/// are left out too. Figures of a job, and its ranks, are left out if a rank is.
Graph without_nodes(const Graph& graph, const std::set<NodeId>& nodes);

/// Without the parts that are named, each as it is left of the ones before:
/// - "gpu:3": GPU 3; "nic:mlx5_0": the NIC of that name, or "nic:0": the first one of the host;
/// - "link:0-1": all links between GPUs 0 and 1; "link:GPU 0-4 NVSwitches": between nodes that are called so (label()).
/// They are the first host's; "gpu:2/3" is GPU 3 of host 2. Throws Error(InvalidArgument), with what there is, if there
/// is no such part.
Graph without_parts(Graph graph, const std::vector<std::string>& parts);

}  // namespace tutti::topo
