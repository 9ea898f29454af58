#include "topo/graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/format.hpp"
#include "base/hash.hpp"

namespace tutti::topo {
namespace {

constexpr const char* kNodeNames[] = {"host",   "package", "numa",     "complex", "core",
                                      "bridge", "gpu",     "nvswitch", "nic",     "fabric"};
constexpr const char* kLinkNames[] = {"cache", "die", "socket", "pci", "nvlink", "network"};
static_assert(std::size(kNodeNames) == kNodeKinds && std::size(kLinkNames) == kLinkKinds);

bool has_no_parent(NodeKind kind) { return kind == NodeKind::Host || kind == NodeKind::Fabric; }
bool may_hold(NodeKind kind) {
  return kind != NodeKind::Core && kind != NodeKind::Fabric && kind != NodeKind::NvSwitch && kind != NodeKind::Gpu &&
         kind != NodeKind::Nic;
}

bool contains(const Cores& all, const Cores& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

void add(const Node& node, size_t usable, double quota, Hash& hash) {
  hash.add(static_cast<uint64_t>(node.kind)).add(node.parent).add(node.model).add(node.processors.size());
  hash.add(usable).add(static_cast<uint64_t>(node.sm)).add(node.count);
  hash.add(std::bit_cast<uint64_t>(node.port)).add(std::bit_cast<uint64_t>(quota));
}

void add(const Link& link, Hash& hash) {
  hash.add(link.a).add(link.b).add(static_cast<uint64_t>(link.kind)).add(link.width);
  hash.add(std::bit_cast<uint64_t>(link.gbps)).add(std::bit_cast<uint64_t>(link.us));
}

void add(const Figure& figure, Hash& hash) {
  if (figure.a == kNoNode) return;  // of the library between any two, which may be calibrated anew
  hash.add(figure.a).add(figure.b);
  hash.add(std::bit_cast<uint64_t>(figure.gbps)).add(std::bit_cast<uint64_t>(figure.us));
}

}  // namespace

const char* name_of(NodeKind kind) { return kNodeNames[static_cast<size_t>(kind)]; }
const char* name_of(LinkKind kind) { return kLinkNames[static_cast<size_t>(kind)]; }
const char* name_of(Figure::Between between) {
  constexpr const char* kNames[] = {"threads", "processes", "hosts"};
  return kNames[static_cast<size_t>(between)];
}

NodeId Graph::add(Node node) {
  if (nodes.size() >= kMaxNodes) throw_error(Code::InvalidArgument, "more than {} nodes", kMaxNodes);
  nodes.push_back(std::move(node));
  return static_cast<NodeId>(nodes.size() - 1);
}

void Graph::connect(Link link) {
  if (links.size() >= kMaxLinks) throw_error(Code::InvalidArgument, "more than {} links", kMaxLinks);
  links.push_back(link);
}

NodeId Graph::host_of(NodeId node) const {
  while (nodes[node].parent != kNoNode) node = nodes[node].parent;
  return node;
}

NodeId Graph::enclosing(NodeId node, NodeKind kind) const {
  while (node != kNoNode && nodes[node].kind != kind) node = nodes[node].parent;
  return node;
}

std::vector<NodeId> Graph::all(NodeKind kind) const {
  std::vector<NodeId> found;
  for (NodeId i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(i);
  }
  return found;
}

NodeId Graph::place(NodeId host, const Cores& processors) const {
  NodeId best = host;
  if (processors.empty()) return host;
  for (NodeId i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (node.processors.empty() || !contains(node.processors, processors) || host_of(i) != host) continue;
    const bool smaller = nodes[best].processors.empty() || node.processors.size() <= nodes[best].processors.size();
    if (best == host || smaller) best = i;
  }
  return best;
}

std::string label(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  const auto numbered = [&](const char* what) {
    return node.number >= 0 ? fmt::format("{} {}", what, node.number) : fmt::format("{} {}", what, node.name);
  };
  switch (node.kind) {
    case NodeKind::Host:
      return node.name.empty() ? "host" : node.name;
    case NodeKind::Package:
      return numbered("package");
    case NodeKind::Numa:
      return numbered("NUMA node");
    case NodeKind::Complex:
      return fmt::format("core complex {}", to_text(node.processors));
    case NodeKind::Core:
      return numbered("core");
    case NodeKind::Bridge:
      return node.address.empty() ? "PCIe switch" : "PCIe switch " + node.address;
    case NodeKind::Gpu:
      return node.number >= 0 ? fmt::format("GPU {}", node.number) : "GPU " + node.address;
    case NodeKind::NvSwitch:
      return node.count == 1 ? "NVSwitch" : fmt::format("{} NVSwitches", node.count);
    case NodeKind::Nic:
      return "NIC " + (node.name.empty() ? node.address : node.name);
    case NodeKind::Fabric:
      return node.name.empty() ? "network" : node.name;
  }
  return "";
}

void check_node(const Graph& graph, size_t i) {
  const Node& node = graph.nodes[i];
  const auto bad = [&](const std::string& why) {
    throw_error(Code::InvalidArgument, "node {} ({}) {}", i, name_of(node.kind), why);
  };
  if (has_no_parent(node.kind) != (node.parent == kNoNode)) {
    bad(node.parent == kNoNode ? "lies in no other node" : "lies in another node");
  }
  if (node.parent != kNoNode) {
    if (node.parent >= i) bad("comes before the node that it lies in");
    if (!may_hold(graph.nodes[node.parent].kind)) {
      bad(fmt::format("lies in a {}", name_of(graph.nodes[node.parent].kind)));
    }
  }
  if (!std::isfinite(node.port) || node.port < 0 || !std::isfinite(node.quota) || node.quota < 0) {
    bad("has a figure that is negative or not finite");
  }
  if (node.count == 0) bad("stands for nothing");
}

void check_link(const Graph& graph, size_t i) {
  const Link& link = graph.links[i];
  const auto bad = [&](const char* why) {
    throw_error(Code::InvalidArgument, "link {} ({}) {}", i, name_of(link.kind), why);
  };
  if (link.a >= graph.nodes.size() || link.b >= graph.nodes.size()) bad("has an end that is no node");
  if (link.a == link.b) bad("has one node at both ends");
  if (!std::isfinite(link.gbps) || link.gbps <= 0) bad("has no bandwidth, or one that is not finite");
  if (!std::isfinite(link.most) || link.most < 0) bad("was measured at a rate that is negative or not finite");
  if (!std::isfinite(link.us) || link.us < 0) bad("has a latency that is negative or not finite");
  if (link.width == 0) bad("is of no lanes");
}

void check_figure(const Graph& graph, size_t i) {
  const Figure& figure = graph.figures[i];
  const auto bad = [&](const char* why) { throw_error(Code::InvalidArgument, "figure {} {}", i, why); };
  if (!std::isfinite(figure.us) || figure.us < 0) bad("has a latency that is negative or not finite");
  if (!std::isfinite(figure.most) || figure.most < 0) bad("has a rate at most that is negative or not finite");
  if (!std::isfinite(figure.gbps) || figure.gbps < 0) bad("has a bandwidth that is negative or not finite");
  const auto is_host = [&](NodeId node) {
    return node < graph.nodes.size() && graph.nodes[node].kind == NodeKind::Host;
  };
  const bool named = figure.a != kNoNode || figure.b != kNoNode;
  if (named && (!is_host(figure.a) || !is_host(figure.b))) bad("has an end that is no host");
}

void check(const Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) check_node(graph, i);
  for (size_t i = 0; i < graph.links.size(); ++i) check_link(graph, i);
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (graph.ranks[rank] >= graph.nodes.size()) {
      throw_error(Code::InvalidArgument, "rank {} is on a node that there is not", rank);
    }
  }
  if (!graph.processes.empty() && graph.processes.size() != graph.ranks.size()) {
    throw_error(Code::InvalidArgument, "{} ranks have {} numbers of processes", graph.ranks.size(),
                graph.processes.size());
  }
  for (size_t i = 0; i < graph.figures.size(); ++i) check_figure(graph, i);
}

uint64_t hash_of(const Graph& graph) {
  Hash hash;
  for (const Node& node : graph.nodes) add(node, node.usable.size(), node.quota, hash);
  for (const Link& link : graph.links) add(link, hash);
  for (const Figure& figure : graph.figures) add(figure, hash);
  return hash.value();
}

PartHashes part_hashes_of(const Graph& graph) {
  const auto is_network = [&](NodeId id) {
    const Node& node = graph.nodes[id];
    return node.kind == NodeKind::Fabric || (node.kind == NodeKind::Nic && node.assumed);
  };
  size_t nodes = graph.nodes.size();
  while (nodes > 0 && is_network(static_cast<NodeId>(nodes - 1))) --nodes;
  Hash machines, network;
  for (size_t i = 0; i < graph.nodes.size(); ++i) add(graph.nodes[i], 0, 0, i < nodes ? machines : network);
  for (const Link& link : graph.links) {
    const bool outside = link.kind == LinkKind::Network || link.measured || is_network(link.a) || is_network(link.b);
    add(link, outside ? network : machines);
  }
  for (const Figure& figure : graph.figures) add(figure, network);
  return {machines.value(), network.value()};
}

}  // namespace tutti::topo
