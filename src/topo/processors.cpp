#include "topo/processors.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace tutti::topo {
namespace {

bool contains(const Cores& all, const Cores& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

bool is_root_of_devices(NodeKind kind) { return kind == NodeKind::Package || kind == NodeKind::Numa; }

void assume_package(const Graph& graph, NodeId host, std::vector<Node>& areas) {
  const bool known = std::any_of(areas.begin(), areas.end(), [](const Node& area) {
    return is_root_of_devices(area.kind) && !area.processors.empty();
  });
  if (known) return;
  Cores all = graph.nodes[host].processors;
  for (const Node& area : areas) {
    Cores joined;
    std::set_union(all.begin(), all.end(), area.processors.begin(), area.processors.end(), std::back_inserter(joined));
    all = std::move(joined);
  }
  areas.push_back({.kind = NodeKind::Package, .processors = std::move(all), .number = 0});  // perhaps of no processors
}

/// Larger ones first; of equal ones, packages first and cores last.
void sort_outer_first(std::vector<Node>& areas) {
  std::stable_sort(areas.begin(), areas.end(), [](const Node& a, const Node& b) {
    if (a.processors.size() != b.processors.size()) return a.processors.size() > b.processors.size();
    return a.kind < b.kind;
  });
}

/// The last node from `first` on that contains the area: the smallest, because outer ones come first.
NodeId parent_of(const Graph& graph, NodeId host, NodeId first, const Node& area) {
  if (area.processors.empty()) return host;
  for (auto i = static_cast<NodeId>(graph.nodes.size()); i-- > first;) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::Core && contains(node.processors, area.processors)) return i;
  }
  return host;
}

/// The package, or else the outermost area, that a node lies in.
NodeId outermost(const Graph& graph, NodeId host, NodeId node) {
  while (graph.nodes[node].kind != NodeKind::Package && graph.nodes[node].parent != host) {
    node = graph.nodes[node].parent;
  }
  return node;
}

/// How many core complexes each package has.
std::map<NodeId, int> count_complexes(const Graph& graph, NodeId host, NodeId first) {
  std::map<NodeId, int> complexes;
  for (NodeId i = first; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::Complex) ++complexes[outermost(graph, host, i)];
  }
  return complexes;
}

/// The link of a core, complex or NUMA node to what it lies in.
void link_up(Graph& graph, NodeId host, const std::map<NodeId, int>& complexes, bool amd, NodeId id) {
  const Node& node = graph.nodes[id];
  if (node.parent == host) return;
  const NodeKind above = graph.nodes[node.parent].kind;
  const auto found = complexes.find(outermost(graph, host, id));
  const bool only = found == complexes.end() || found->second < 2;
  const bool mesh = only && !amd;  // one cache for all cores; a guest may be given a single complex of AMD's
  LinkFigure figure = figures::mesh_to_die;
  if (node.kind == NodeKind::Core) figure = mesh ? figures::core_to_mesh : figures::core_to_complex;
  if (node.kind == NodeKind::Complex && !only) figure = figures::complex_to_die;
  const LinkKind kind = above == NodeKind::Complex ? LinkKind::Cache : LinkKind::Die;
  graph.connect({.a = id, .b = node.parent, .kind = kind, .gbps = figure.gbps, .us = figure.us});
}

/// Packages to each other; where none are known, NUMA nodes. A NUMA node of several packages hangs from its first.
void link_sockets(Graph& graph, NodeId host, NodeId first, NodeId end, LinkFigure figure) {
  std::vector<NodeId> sockets;
  for (NodeId i = first; i < end; ++i) {
    if (graph.nodes[i].kind == NodeKind::Package) sockets.push_back(i);
  }
  if (sockets.empty()) {
    for (NodeId i = first; i < end; ++i) {
      if (graph.nodes[i].parent == host) sockets.push_back(i);
    }
  }
  for (size_t i = 0; i < sockets.size(); ++i) {
    for (size_t j = i + 1; j < sockets.size(); ++j) {
      graph.connect({.a = sockets[i], .b = sockets[j], .kind = LinkKind::Socket, .gbps = figure.gbps, .us = figure.us});
    }
  }
}

}  // namespace

void add_processors(Graph& graph, NodeId host, std::vector<Node> areas, const ProcessorId& processor) {
  assume_package(graph, host, areas);
  sort_outer_first(areas);
  const auto first = static_cast<NodeId>(graph.nodes.size());
  for (Node& area : areas) {
    area.parent = parent_of(graph, host, first, area);
    graph.add(std::move(area));
  }
  const auto end = static_cast<NodeId>(graph.nodes.size());
  link_sockets(graph, host, first, end, socket_figure(processor));
  const std::map<NodeId, int> complexes = count_complexes(graph, host, first);
  const bool amd = processor.vendor == "AuthenticAMD";
  std::vector<NodeId> hung;  // NUMA nodes of several packages that have their link
  for (NodeId i = first; i < end; ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::Package) {
      link_up(graph, host, complexes, amd, i);
      continue;
    }
    if (node.parent == host || std::find(hung.begin(), hung.end(), node.parent) != hung.end()) continue;
    hung.push_back(node.parent);
    link_up(graph, host, complexes, amd, i);
  }
}

DeviceRoot device_root(const Graph& graph, NodeId host, const Cores& near) {
  DeviceRoot best{kNoNode, false};
  NodeId fallback = kNoNode;
  for (NodeId i = host + 1; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_root_of_devices(node.kind) || graph.host_of(i) != host) continue;
    // Nodes of memory alone have no processors; where none is known to have any, the first will do.
    const bool better = fallback != kNoNode && graph.nodes[fallback].processors.empty() && !node.processors.empty();
    if (fallback == kNoNode || better) fallback = i;
    if (near.empty() || !contains(node.processors, near)) continue;
    if (best.node == kNoNode || node.processors.size() <= graph.nodes[best.node].processors.size()) best = {i, true};
  }
  if (best.node == kNoNode) best.node = fallback;
  return best;
}

}  // namespace tutti::topo
