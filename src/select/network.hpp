// The measured network in a job's topology.
#pragma once

#include <string>
#include <vector>

#include "select/measured_hosts.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// The origin of figures that a profile has.
inline constexpr const char* kMeasured = "measured by `tutti tune`";

/// Puts what is known of the job's hosts onto its graph: figures of pairs of hosts, the rates of the hosts' NICs, and
/// islands as networks of their own with links between them. What differs by less than measurements do counts as alike.
/// Hosts are known by name; those of a name that two of them have are left as they are. The graph has a figure for
/// messages between hosts, else nothing is added.
void add_measured_hosts(topo::Graph& graph, const MeasuredHosts& hosts);

/// Does it join islands of hosts?
inline bool joins_islands(const topo::Graph& graph, const topo::Link& link) {
  return graph.nodes[link.a].kind == topo::NodeKind::Fabric && graph.nodes[link.b].kind == topo::NodeKind::Fabric;
}

/// "link host2: 25 MB/s, measured by `tutti tune`".
std::string measured_link_text(const topo::Graph& graph, const topo::Link& link);

/// The same of those that are slower than the fastest of their kind, of those that join islands, and of pairs of hosts
/// that are slower than others, and than the links that lead to both.
std::vector<std::string> slow_links(const topo::Graph& graph);

}  // namespace tutti::select
