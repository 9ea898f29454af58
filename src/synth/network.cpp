#include "synth/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/format.hpp"
#include "topo/paths.hpp"

namespace tutti::synth {
namespace {

using topo::Graph;
using topo::kNoNode;
using topo::Link;
using topo::NodeId;
using topo::NodeKind;

void check_nodes(const Graph& graph, std::span<const NodeId> nodes, Sharing sharing) {
  if (nodes.empty() || nodes.size() > static_cast<size_t>(kMaxRanks)) {
    throw_error(Code::InvalidArgument, "a network of {} ranks: from 1 to {} are possible", nodes.size(), kMaxRanks);
  }
  std::map<NodeId, size_t> ranks;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] >= graph.nodes.size()) throw_error(Code::InvalidArgument, "rank {} is on no node", rank);
    const NodeKind kind = graph.nodes[nodes[rank]].kind;
    if (kind != NodeKind::Gpu && kind != NodeKind::Core) {
      throw_error(Code::InvalidArgument, "rank {} is on {}; its links are only known on a GPU or a core", rank,
                  label(graph, nodes[rank]));
    }
    const auto [at, is_new] = ranks.emplace(nodes[rank], rank);
    if (is_new || sharing == Sharing::Allow) continue;
    throw_error(Code::InvalidArgument, "ranks {} and {} share {}: give at most one rank a GPU or core", at->second,
                rank, label(graph, nodes[rank]));
  }
}

/// Of a link, in kB/s.
Capacity capacity_of(const Graph& graph, const Link& link) {
  if (link.gbps >= kMinGbps && link.gbps <= kMaxGbps) return std::llround(link.gbps * 1e6);
  throw_error(Code::InvalidArgument, "the link {} – {} has {} GB/s; from {} to {} are possible", label(graph, link.a),
              label(graph, link.b), link.gbps, kMinGbps, kMaxGbps);
}

/// Finds the links that messages use, and numbers what they join.
class Builder {
 public:
  Builder(const Graph& graph, std::span<const NodeId> nodes) : graph_(graph), nodes_(nodes), finder_(graph) {
    network_.ranks = static_cast<Rank>(nodes.size());
    network_.inside.resize(nodes.size());
    network_.outside.resize(nodes.size());
    network_.vertices = static_cast<uint32_t>(nodes.size());
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      const bool alone = std::count(nodes.begin(), nodes.end(), nodes[rank]) == 1;
      if (alone) numbers_[nodes[rank]] = static_cast<Vertex>(rank);
      shares_.push_back(!alone);
    }
    std::map<NodeId, uint32_t> numbers;
    for (const NodeId node : nodes) {
      network_.hosts.push_back(
          numbers.emplace(graph.host_of(node), static_cast<uint32_t>(numbers.size())).first->second);
    }
  }

  Network build() {
    const bool several = *std::max_element(network_.hosts.begin(), network_.hosts.end()) > 0;
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      take_inside(rank);
      if (several) take_outside(rank);
    }
    for (uint32_t i = 0; several && i < graph_.links.size(); ++i) {
      const Link& link = graph_.links[i];
      if (is_fabric(link.a) && is_fabric(link.b)) used_.insert(i);
    }
    add_arcs();
    network_.nodes.resize(network_.vertices);
    for (const auto& [node, vertex] : numbers_) network_.nodes[vertex] = node;
    return std::move(network_);
  }

  std::vector<std::pair<NodeId, NodeId>> links() const {
    std::vector<std::pair<NodeId, NodeId>> ends;
    for (const uint32_t i : used_) ends.emplace_back(graph_.links[i].a, graph_.links[i].b);
    return ends;
  }

 private:
  bool is_fabric(NodeId node) const { return graph_.nodes[node].kind == NodeKind::Fabric; }

  Vertex vertex(NodeId node) {
    const auto [at, is_new] = numbers_.emplace(node, network_.vertices);
    if (is_new && ++network_.vertices > kMaxVertices) {
      throw_error(Code::InvalidArgument, "the ranks' links join more than {} nodes", kMaxVertices);
    }
    return at->second;
  }

  /// Paths to the other ranks of the host. There need not be one: GPUs do not forward, but ranks can.
  void take_inside(size_t rank) {
    std::vector<NodeId> ends;
    std::vector<Rank> peers;
    for (size_t peer = 0; peer < nodes_.size(); ++peer) {
      if (peer == rank || network_.hosts[peer] != network_.hosts[rank]) continue;
      ends.push_back(nodes_[peer]);
      peers.push_back(static_cast<Rank>(peer));
    }
    const std::vector<topo::Path> paths = finder_.from(nodes_[rank], ends);
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto peer = static_cast<size_t>(peers[i]);
      const bool together = nodes_[rank] == nodes_[peer];
      if (paths[i].kind == topo::PathKind::None && !together) continue;
      std::vector<Vertex> way = together ? std::vector<Vertex>() : take(nodes_[rank], paths[i]);
      if (shares_[rank]) way.insert(way.begin(), vertex(nodes_[rank]));
      if (shares_[peer] && !together) way.push_back(vertex(nodes_[peer]));
      network_.inside[rank][peers[i]] = std::move(way);
    }
  }

  /// The path to the network.
  void take_outside(size_t rank) {
    const NodeId host = graph_.host_of(nodes_[rank]);
    std::set<NodeId> fabrics;
    for (const Link& link : graph_.links) {
      if (is_fabric(link.b) && !is_fabric(link.a) && graph_.host_of(link.a) == host) fabrics.insert(link.b);
      if (is_fabric(link.a) && !is_fabric(link.b) && graph_.host_of(link.b) == host) fabrics.insert(link.a);
    }
    for (const NodeId fabric : fabrics) {
      network_.outside[rank] = take(nodes_[rank], finder_.between(nodes_[rank], fabric));
      if (shares_[rank]) network_.outside[rank].insert(network_.outside[rank].begin(), vertex(nodes_[rank]));
      network_.outside[rank].push_back(vertex(fabric));
    }
  }

  /// Returns the vertices on the way.
  std::vector<Vertex> take(NodeId from, const topo::Path& path) {
    std::vector<Vertex> way;
    NodeId at = from;
    for (size_t i = 0; i < path.links.size(); ++i) {
      const Link& link = graph_.links[path.links[i]];
      used_.insert(path.links[i]);
      at = link.a == at ? link.b : link.a;
      if (i + 1 < path.links.size()) way.push_back(vertex(at));
    }
    return way;
  }

  void add_arcs() {
    std::map<std::pair<Vertex, Vertex>, Arc> arcs;  // links between the same two nodes are one
    Capacity divisor = 0;
    for (const uint32_t i : used_) {
      const Link& link = graph_.links[i];
      const Vertex a = vertex(link.a), b = vertex(link.b);
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        Arc& arc = arcs[{from, to}];
        const bool is_new = arc.capacity == 0;
        arc = {from, to, arc.capacity + capacity_of(graph_, link), is_new ? link.us : std::min(arc.us, link.us)};
      }
    }
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      if (!shares_[rank]) continue;
      const auto own = static_cast<Vertex>(rank), node = vertex(nodes_[rank]);
      for (const auto& [from, to] : {std::pair(own, node), std::pair(node, own)}) {
        arcs[{from, to}] = {from, to, std::llround(kMaxGbps * 1e6), 0};
      }
    }
    for (const auto& [ends, arc] : arcs) divisor = std::gcd(divisor, arc.capacity);
    for (auto& [ends, arc] : arcs) {
      arc.capacity /= divisor;
      network_.arcs.push_back(arc);
    }
    network_.unit = 1e3 * static_cast<double>(std::max<Capacity>(1, divisor));
  }

  const Graph& graph_;
  std::span<const NodeId> nodes_;
  topo::PathFinder finder_;
  Network network_;
  std::map<NodeId, Vertex> numbers_;  // of ranks alone on a node, and of switches
  std::vector<bool> shares_;          // by rank: its node has other ranks too
  std::set<uint32_t> used_;
};

}  // namespace

bool Network::has_way(Vertex rank, std::span<const Vertex> part) const {
  // Are these on the way, in this order?
  const auto passes = [&](const std::vector<Vertex>& way) {
    auto at = way.begin();
    for (const Vertex vertex : part) {
      at = std::find(at, way.end(), vertex);
      if (at == way.end()) return false;
    }
    return true;
  };
  const std::vector<Vertex>& out = outside[rank];
  if (passes(out)) return true;
  // The last one of a way out is the network, behind which another host's switches follow.
  if (!out.empty() && part.size() == 2 && out.back() == part.front()) return true;
  return std::any_of(inside[rank].begin(), inside[rank].end(), [&](const auto& to) { return passes(to.second); });
}

bool Network::passes(Vertex from, Vertex through, Vertex to) const {
  if (!has_ways()) return true;
  if (is_rank(from) && is_rank(to)) {
    const auto goes_out = [&](Vertex rank) {
      return std::find(outside[rank].begin(), outside[rank].end(), through) != outside[rank].end();
    };
    if (host(from) != host(to)) return goes_out(from) || goes_out(to);
    const auto at = inside[from].find(static_cast<Rank>(to));
    return at != inside[from].end() && std::find(at->second.begin(), at->second.end(), through) != at->second.end();
  }
  if (is_rank(from)) return has_way(from, std::array{through, to});
  if (is_rank(to)) return has_way(to, std::array{through, from});
  for (Vertex rank = 0; is_rank(rank); ++rank) {
    if (has_way(rank, std::array{from, through, to}) || has_way(rank, std::array{to, through, from})) return true;
  }
  return false;
}

std::vector<Vertex> Network::way(Rank from, Rank to) const {
  const auto f = static_cast<Vertex>(from), t = static_cast<Vertex>(to);
  std::vector<Vertex> way = {f};
  if (host(f) == host(t)) {
    const std::vector<Vertex>& switches = inside[f].at(to);
    way.insert(way.end(), switches.begin(), switches.end());
  } else {
    way.insert(way.end(), outside[f].begin(), outside[f].end());
    const bool same = outside[f].back() == outside[t].back();
    way.insert(way.end(), outside[t].rbegin() + (same ? 1 : 0), outside[t].rend());
  }
  way.push_back(t);
  return way;
}

Network network_of(const Graph& graph, std::span<const NodeId> nodes, Sharing sharing) {
  check_nodes(graph, nodes, sharing);
  return Builder(graph, nodes).build();
}

std::vector<std::pair<NodeId, NodeId>> links_of(const Graph& graph, std::span<const NodeId> nodes) {
  check_nodes(graph, nodes, Sharing::Refuse);
  Builder builder(graph, nodes);
  builder.build();
  return builder.links();
}

Network reversed(Network network) {
  for (Arc& arc : network.arcs) std::swap(arc.from, arc.to);
  return network;
}

}  // namespace tutti::synth
