#include "topo/cluster.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "topo/link_figures.hpp"

namespace tutti::topo {
namespace {

/// Appends all but the fabric and its links; returns the new number of each node.
std::vector<NodeId> append(Graph& all, const Graph& part) {
  std::vector<NodeId> moved(part.nodes.size(), kNoNode);
  for (size_t i = 0; i < part.nodes.size(); ++i) {
    Node node = part.nodes[i];
    if (node.kind == NodeKind::Fabric) continue;
    if (node.parent != kNoNode) node.parent = moved[node.parent];
    moved[i] = all.add(std::move(node));
  }
  for (Link link : part.links) {
    link.a = moved[link.a];
    link.b = moved[link.b];
    if (link.a == kNoNode || link.b == kNoNode) continue;
    if (all.links.size() >= kMaxLinks) throw_error(Code::InvalidArgument, "more than {} links", kMaxLinks);
    all.links.push_back(link);
  }
  for (const std::string& note : part.notes) {
    if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end()) all.notes.push_back(note);
  }
  return moved;
}

void join_by_network(Graph& all) {
  if (all.all(NodeKind::Host).size() < 2) return;
  const std::vector<NodeId> nics = all.all(NodeKind::Nic);
  const NodeId fabric = all.add({.kind = NodeKind::Fabric});
  for (const NodeId nic : nics) {
    const Node& node = all.nodes[nic];
    if (node.port <= 0) continue;
    all.connect({.a = nic,
                 .b = fabric,
                 .kind = LinkKind::Network,
                 .gbps = node.port,
                 .us = figures::port.us,
                 .assumed = node.assumed});
  }
}

void add_ranks(Graph& all, const Graph& part, const std::vector<NodeId>& moved) {
  for (const NodeId node : part.ranks) all.ranks.push_back(moved[node]);
}

}  // namespace

Graph merge(std::span<const Graph> parts) {
  Graph all;
  for (const Graph& part : parts) add_ranks(all, part, append(all, part));
  join_by_network(all);
  return all;
}

Graph cluster(const Graph& part, uint32_t hosts) {
  if (part.nodes.size() * hosts > kMaxNodes) {
    throw_error(Code::InvalidArgument, "{} such topologies have more than {} nodes", hosts, kMaxNodes);
  }
  Graph all;
  for (uint32_t host = 0; host < hosts; ++host) {
    const std::vector<NodeId> moved = append(all, part);
    if (hosts > 1) {
      for (const NodeId node : moved) {
        if (node == kNoNode || all.nodes[node].kind != NodeKind::Host) continue;
        std::string& name = all.nodes[node].name;
        name = fmt::format("{} {}", name.empty() ? "host" : name, host);
      }
    }
    add_ranks(all, part, moved);
  }
  join_by_network(all);
  return all;
}

Graph merge_ranks(std::span<const Graph> parts, std::span<const RankPlace> ranks) {
  Graph all = merge(parts);
  all.ranks.clear();
  const std::vector<NodeId> hosts = all.all(NodeKind::Host);
  if (hosts.size() != parts.size()) {
    throw_error(Code::InvalidArgument, "{} topologies describe {} hosts", parts.size(), hosts.size());
  }
  for (const RankPlace& rank : ranks) {
    if (rank.part >= hosts.size())
      throw_error(Code::InvalidArgument, "a rank is on host {} of {}", rank.part, hosts.size());
    all.ranks.push_back(all.place(hosts[rank.part], rank.processors));
  }
  return all;
}

}  // namespace tutti::topo
