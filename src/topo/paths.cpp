#include "topo/paths.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "topo/link_figures.hpp"

namespace tutti::topo {
namespace {

constexpr uint32_t kNoLink = std::numeric_limits<uint32_t>::max();
constexpr const char* kNames[] = {"same core", "same GPU",    "same core complex", "same package",   "NVLink",
                                  "NVSwitch",  "PCIe switch", "PCIe host bridge",  "across sockets", "network",
                                  "no path"};
constexpr const char* kCodes[] = {"SELF", "SELF", "L3", "PKG", "NVL", "NVS", "PIX", "PHB", "SYS", "NET", "-"};
static_assert(std::size(kNames) == kPathKinds && std::size(kCodes) == kPathKinds);

bool is_processor(NodeKind kind) {
  return kind == NodeKind::Host || kind == NodeKind::Package || kind == NodeKind::Numa || kind == NodeKind::Complex;
}

}  // namespace

const char* name_of(PathKind kind) { return kNames[static_cast<size_t>(kind)]; }
const char* code_of(PathKind kind) { return kCodes[static_cast<size_t>(kind)]; }

/// The way back from each node: its latency so far, and the link that was taken last.
struct PathFinder::Reached {
  std::vector<double> us;
  std::vector<uint32_t> by;
};

PathFinder::PathFinder(const Graph& graph) : graph_(graph) {
  const size_t nodes = graph.nodes.size();
  host_.resize(nodes);
  first_core_.assign(nodes, kNoNode);
  last_core_.assign(nodes, kNoNode);
  for (NodeId i = 0; i < nodes; ++i) {
    const NodeId parent = graph.nodes[i].parent;
    host_[i] = parent == kNoNode ? i : host_[parent];
    if (graph.nodes[i].kind != NodeKind::Core) continue;
    for (NodeId at = i; at != kNoNode; at = graph.nodes[at].parent) {
      if (first_core_[at] == kNoNode) first_core_[at] = i;
      last_core_[at] = i;
    }
  }
  begin_.assign(nodes + 1, 0);
  for (const Link& link : graph.links) ++begin_[link.a + 1], ++begin_[link.b + 1];
  for (size_t i = 0; i < nodes; ++i) begin_[i + 1] += begin_[i];
  halves_.resize(2 * graph.links.size());
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (uint32_t i = 0; i < graph.links.size(); ++i) {
    const Link& link = graph.links[i];
    halves_[next[link.a]++] = {i, link.b};
    halves_[next[link.b]++] = {i, link.a};
  }
}

bool PathFinder::forwards(NodeId node, NodeId source) const {
  const NodeKind kind = graph_.nodes[node].kind;
  return node == source || (kind != NodeKind::Core && kind != NodeKind::Gpu);
}

NodeId PathFinder::core_of(NodeId node, bool last) const {
  if (!is_processor(graph_.nodes[node].kind)) return node;
  const NodeId core = last ? last_core_[node] : first_core_[node];
  return core == kNoNode ? node : core;
}

std::vector<double> PathFinder::widths(NodeId source, bool network) const {
  std::vector<double> width(graph_.nodes.size(), 0);
  std::priority_queue<std::pair<double, NodeId>> next;
  width[source] = std::numeric_limits<double>::infinity();
  next.emplace(width[source], source);
  while (!next.empty()) {
    const auto [wide, node] = next.top();
    next.pop();
    if (wide < width[node] || !forwards(node, source)) continue;
    for (uint32_t i = begin_[node]; i < begin_[node + 1]; ++i) {
      const Link& link = graph_.links[halves_[i].link];
      if (link.kind == LinkKind::Network && !network) continue;
      const double through = std::min(wide, link.gbps);
      if (through <= width[halves_[i].to]) continue;
      width[halves_[i].to] = through;
      next.emplace(through, halves_[i].to);
    }
  }
  return width;
}

PathFinder::Reached PathFinder::shortest(NodeId source, bool network, double least) const {
  // Of paths of equal latency, the one of fewer links.
  using Cost = std::pair<double, uint32_t>;
  constexpr Cost kFar{std::numeric_limits<double>::infinity(), 0};
  const size_t nodes = graph_.nodes.size();
  std::vector<Cost> cost(nodes, kFar);
  Reached reached{.us = std::vector<double>(nodes, kFar.first), .by = std::vector<uint32_t>(nodes, kNoLink)};
  std::priority_queue<std::pair<Cost, NodeId>, std::vector<std::pair<Cost, NodeId>>, std::greater<>> next;
  cost[source] = {0, 0};
  next.emplace(cost[source], source);
  while (!next.empty()) {
    const auto [far, node] = next.top();
    next.pop();
    if (far > cost[node]) continue;
    reached.us[node] = far.first;
    if (!forwards(node, source)) continue;
    for (uint32_t i = begin_[node]; i < begin_[node + 1]; ++i) {
      const Link& link = graph_.links[halves_[i].link];
      if (link.gbps < least || (link.kind == LinkKind::Network && !network)) continue;
      const Cost through{far.first + link.us, far.second + 1};
      if (through >= cost[halves_[i].to]) continue;
      cost[halves_[i].to] = through;
      reached.by[halves_[i].to] = halves_[i].link;
      next.emplace(through, halves_[i].to);
    }
  }
  return reached;
}

Path PathFinder::path_to(NodeId source, NodeId end, const Reached& reached) const {
  Path path{.kind = PathKind::SameCore, .gbps = std::numeric_limits<double>::infinity(), .us = reached.us[end]};
  for (NodeId at = end; at != source;) {
    const uint32_t by = reached.by[at];
    const Link& link = graph_.links[by];
    path.links.push_back(by);
    path.gbps = std::min(path.gbps, link.gbps);
    at = link.a == at ? link.b : link.a;
  }
  std::reverse(path.links.begin(), path.links.end());
  path.kind = kind_of(path, source);
  return path;
}

PathKind PathFinder::kind_of(const Path& path, NodeId source) const {
  bool has[kLinkKinds] = {};
  bool nvswitch = false, processor = is_processor(graph_.nodes[source].kind);
  processor = processor || graph_.nodes[source].kind == NodeKind::Core;
  NodeId at = source;
  for (const uint32_t i : path.links) {
    const Link& link = graph_.links[i];
    has[static_cast<size_t>(link.kind)] = true;
    at = link.a == at ? link.b : link.a;
    nvswitch = nvswitch || graph_.nodes[at].kind == NodeKind::NvSwitch;
    processor = processor || is_processor(graph_.nodes[at].kind);
  }
  const auto any = [&](LinkKind kind) { return has[static_cast<size_t>(kind)]; };
  if (any(LinkKind::Network)) return PathKind::Network;
  if (any(LinkKind::Socket)) return PathKind::Sockets;
  if (any(LinkKind::Pci)) return processor ? PathKind::HostBridge : PathKind::PciSwitch;
  if (any(LinkKind::NvLink)) return nvswitch ? PathKind::NvSwitch : PathKind::NvLink;
  return any(LinkKind::Die) ? PathKind::Package : PathKind::Complex;
}

std::vector<Path> PathFinder::from(NodeId a, std::span<const NodeId> ends) const {
  const NodeId source = core_of(a, false);
  const bool network = std::any_of(ends.begin(), ends.end(), [&](NodeId end) { return host_[end] != host_[source]; });
  // Ends inside the host and ends outside are searched for apart: only the latter may use the network.
  std::vector<double> width[2] = {widths(source, false), network ? widths(source, true) : std::vector<double>()};
  std::map<std::pair<bool, double>, Reached> found;
  std::vector<Path> paths;
  paths.reserve(ends.size());
  for (const NodeId goal : ends) {
    const NodeId end = core_of(goal, true);
    if (end == source) {
      const bool gpu = graph_.nodes[end].kind == NodeKind::Gpu;
      const LinkFigure& figure = gpu ? figures::same_gpu : figures::same_core;
      paths.push_back({gpu ? PathKind::SameGpu : PathKind::SameCore, figure.gbps, figure.us, {}});
      continue;
    }
    const bool outside = host_[end] != host_[source];
    const double wide = width[outside ? 1 : 0][end];
    if (wide <= 0) {
      paths.emplace_back();
      continue;
    }
    const std::pair<bool, double> key(outside, wide);
    auto at = found.find(key);
    if (at == found.end()) at = found.emplace(key, shortest(source, outside, wide)).first;
    paths.push_back(path_to(source, end, at->second));
  }
  return paths;
}

}  // namespace tutti::topo
