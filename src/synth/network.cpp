#include "synth/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/format.hpp"
#include "topo/folding.hpp"
#include "topo/host_figures.hpp"
#include "topo/link_rates.hpp"
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

constexpr double kNarrower = 0.98;  // of the way through the network: what is not so is no cable

/// Of what joins two nodes, in kB/s.
Capacity capacity_of(const Graph& graph, NodeId a, NodeId b, double gbps) {
  if (gbps >= kMinGbps && gbps <= kMaxGbps) return std::llround(gbps * 1e6);
  throw_error(Code::InvalidArgument, "the link {} – {} has {} GB/s; from {} to {} are possible", label(graph, a),
              label(graph, b), gbps, kMinGbps, kMaxGbps);
}

/// Finds the links that messages use, and numbers what they join.
class Builder {
 public:
  Builder(const Graph& graph, std::span<const NodeId> nodes, Rates rates)
      : graph_(graph), nodes_(nodes), finder_(graph) {
    if (rates == Rates::AtMost) most_ = topo::rates_at_most(graph, nodes);
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
      const auto [at, is_new] = numbers.emplace(graph.host_of(node), static_cast<uint32_t>(numbers.size()));
      network_.hosts.push_back(at->second);
      if (is_new) hosts_.push_back({.node = at->first});
    }
  }

  Network build() {
    const bool several = hosts_.size() > 1;
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      take_inside(rank);
      if (several) take_outside(rank);
    }
    for (uint32_t i = 0; several && i < graph_.links.size(); ++i) {
      const Link& link = graph_.links[i];
      if (is_fabric(link.a) && is_fabric(link.b)) used_.insert(i);
    }
    if (several) find_cables();
    add_arcs();
    network_.nodes.resize(network_.vertices);
    for (const auto& [node, vertex] : numbers_) network_.nodes[vertex] = node;
    for (const auto& [host, gate] : network_.gates) network_.nodes[gate] = hosts_[host].fabric;
    find_folding();
    network_.places.assign(network_.vertices, kNoHost);
    for (Vertex v = 0; v < network_.vertices; ++v) {
      for (uint32_t host = 0; host < hosts_.size() && !is_fabric(network_.nodes[v]); ++host) {
        if (graph_.host_of(network_.nodes[v]) == hosts_[host].node) network_.places[v] = host;
      }
    }
    return std::move(network_);
  }

  std::vector<std::pair<NodeId, NodeId>> links() const {
    std::vector<std::pair<NodeId, NodeId>> ends;
    for (const uint32_t i : used_) ends.emplace_back(graph_.links[i].a, graph_.links[i].b);
    return ends;
  }

 private:
  /// In kB/s.
  Capacity capacity(uint32_t link) const {
    const Link& of = graph_.links[link];
    return capacity_of(graph_, of.a, of.b, most_.empty() ? of.gbps : most_[link].gbps);
  }
  /// Of a link's rate. A rate above what the model has may be out of reach.
  uint32_t origin(const std::string& words, bool raised) {
    network_.exact = network_.exact && !raised;
    const auto at = std::find(network_.origins.begin(), network_.origins.end(), words);
    if (at != network_.origins.end()) return static_cast<uint32_t>(at - network_.origins.begin());
    network_.origins.push_back(words);
    return static_cast<uint32_t>(network_.origins.size() - 1);
  }
  uint32_t origin(uint32_t link) {
    return most_.empty() ? 0 : origin(most_[link].origin, most_[link].gbps > graph_.links[link].gbps);
  }

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
      const topo::Path path = finder_.between(nodes_[rank], fabric);
      hosts_[network_.hosts[rank]].fabric = fabric;
      hosts_[network_.hosts[rank]].narrowest = std::max(hosts_[network_.hosts[rank]].narrowest, path.gbps);
      network_.outside[rank] = take(nodes_[rank], path);
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

  /// The number of the host that a NIC's port is of; none: another link.
  std::optional<uint32_t> host_of_port(const Link& link) const {
    if (is_fabric(link.a) == is_fabric(link.b)) return {};
    const NodeId node = graph_.host_of(is_fabric(link.a) ? link.b : link.a);
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      if (hosts_[host].node == node) return host;
    }
    return {};
  }

  /// Pairs of hosts that reach less than a message's way to the network and from it.
  void find_cables() {
    const topo::HostFigures figures(graph_);
    if (figures.empty()) return;
    for (const uint32_t i : used_) {
      const auto host = host_of_port(graph_.links[i]);
      if (!host) continue;
      hosts_[*host].port += capacity(i);
      ++hosts_[*host].nics;
      hosts_[*host].origin = origin(i);
    }
    for (uint32_t a = 0; a < hosts_.size(); ++a) {
      for (uint32_t b = a + 1; b < hosts_.size(); ++b) {
        Host &one = hosts_[a], &other = hosts_[b];
        const topo::Figure* const figure = figures.of(one.node, other.node);
        if (figure == nullptr || figure->gbps <= 0 || one.fabric != other.fabric) continue;
        const auto nics = static_cast<Capacity>(topo::nics_at_once(one.nics, other.nics));
        const double gbps = most_.empty() ? figure->gbps : topo::rate_at_most(*figure);
        const Capacity rate = nics * capacity_of(graph_, one.node, other.node, gbps);
        if (figure->gbps > kNarrower * std::min(one.narrowest, other.narrowest)) continue;
        cables_[{a, b}] = cables_[{b, a}] = {rate, most_.empty() ? 0 : origin(figure->origin, gbps > figure->gbps)};
        network_.cables.insert({{a, b}, {b, a}});
      }
    }
    for (uint32_t host = 0; host < hosts_.size(); ++host) add_gate(host);
  }

  void add_gate(uint32_t host) {
    size_t peers = 0;
    Capacity of_cables = 0;
    for (const auto& [ends, cable] : cables_) {
      if (ends.first == host) of_cables += cable.rate, ++peers;
    }
    if (peers == 0) return;
    const Vertex gate = network_.gates[host] = network_.vertices++;
    const bool to_all = peers + 1 == hosts_.size();
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      if (network_.hosts[rank] != host) continue;
      std::vector<Vertex>& out = network_.outside[rank];
      out.insert(out.end() - 1, gate);
      if (to_all) out.pop_back();
    }
    const bool relays = hosts_[host].narrowest * 1e6 >= static_cast<double>(of_cables);
    network_.exact = network_.exact && to_all && relays;
  }

  /// Where a NIC's port leads.
  Vertex behind(const Link& link, NodeId end) {
    const auto host = is_fabric(end) ? host_of_port(link) : std::nullopt;
    return host && network_.gates.contains(*host) ? network_.gates[*host] : vertex(end);
  }

  /// NVSwitches that fold for all GPUs that used links join to them, also by way of other NVSwitches.
  void find_folding() {
    std::map<NodeId, std::vector<NodeId>> on;  // by NVSwitch: the GPUs and NVSwitches next to it
    for (const uint32_t i : used_) {
      const Link& link = graph_.links[i];
      for (const auto& [node, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        if (graph_.nodes[node].kind != NodeKind::NvSwitch) continue;
        std::vector<NodeId>& its = on[node];
        const NodeKind kind = graph_.nodes[other].kind;
        if (kind == NodeKind::Gpu || kind == NodeKind::NvSwitch) its.push_back(other);
      }
    }
    for (const auto& [node, its] : on) {
      std::set<NodeId> joined = {node};
      std::vector<NodeId> left = {node}, gpus;
      while (!left.empty()) {
        const NodeId at = left.back();
        left.pop_back();
        for (const NodeId next : on.at(at)) {
          if (joined.insert(next).second) (graph_.nodes[next].kind == NodeKind::Gpu ? gpus : left).push_back(next);
        }
      }
      if (!gpus.empty() && topo::why_no_fold(graph_, gpus).empty()) network_.folding.push_back(vertex(node));
    }
  }

  void add_arcs() {
    std::map<std::pair<Vertex, Vertex>, Arc> arcs;  // links between the same two nodes are one
    Capacity divisor = 0;
    for (const uint32_t i : used_) {
      const Link& link = graph_.links[i];
      const Vertex a = behind(link, link.a), b = behind(link, link.b);
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        Arc& arc = arcs[{from, to}];
        const bool is_new = arc.capacity == 0;
        arc = {from, to, arc.capacity + capacity(i), is_new ? link.us : std::min(arc.us, link.us), origin(i)};
      }
    }
    for (const auto& [ends, cable] : cables_) {
      const Vertex from = network_.gates[ends.first], to = network_.gates[ends.second];
      arcs[{from, to}] = {from, to, cable.rate, 0, cable.origin};
    }
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      const std::vector<Vertex>& out = network_.outside[rank];
      const uint32_t host = network_.hosts[rank];
      if (!network_.gates.contains(host) || out.back() == network_.gates[host]) continue;
      for (const auto& [from, to] : {std::pair(out.end()[-2], out.back()), std::pair(out.back(), out.end()[-2])}) {
        arcs[{from, to}] = {from, to, hosts_[host].port, 0, hosts_[host].origin};
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

  struct Host {
    NodeId node = kNoNode, fabric = kNoNode;
    Capacity port = 0;     // of all NICs that its ranks use …
    size_t nics = 0;       // … and how many they are
    uint32_t origin = 0;   // of their rates
    double narrowest = 0;  // GB/s of a rank's way out: of the rank with the widest
  };

  const Graph& graph_;
  std::span<const NodeId> nodes_;
  topo::PathFinder finder_;
  Network network_;
  std::vector<Host> hosts_;
  struct Cable {
    Capacity rate = 0;  // kB/s
    uint32_t origin = 0;
  };
  std::vector<topo::LinkRate> most_;                       // by link; empty: the graph's rates are meant
  std::map<std::pair<uint32_t, uint32_t>, Cable> cables_;  // by numbers of two hosts, both ways round
  std::map<NodeId, Vertex> numbers_;                       // of ranks alone on a node, and of switches
  std::vector<bool> shares_;                               // by rank: its node has other ranks too
  std::set<uint32_t> used_;
};

}  // namespace

Network network_of(const Graph& graph, std::span<const NodeId> nodes, Sharing sharing, Rates rates) {
  check_nodes(graph, nodes, sharing);
  return Builder(graph, nodes, rates).build();
}

std::vector<std::pair<NodeId, NodeId>> links_of(const Graph& graph, std::span<const NodeId> nodes) {
  check_nodes(graph, nodes, Sharing::Refuse);
  Builder builder(graph, nodes, Rates::Known);
  builder.build();
  return builder.links();
}

Network reversed(Network network) {
  for (Arc& arc : network.arcs) std::swap(arc.from, arc.to);
  return network;
}

}  // namespace tutti::synth
