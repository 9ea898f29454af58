#include "select/places.hpp"

#include <map>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::select {
namespace {

using topo::Graph;
using topo::NodeId;
using topo::NodeKind;

/// The GPUs of a host, else its cores.
std::vector<NodeId> ends_of(const Graph& graph, NodeId host) {
  std::vector<NodeId> gpus, cores;
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    const NodeKind kind = graph.nodes[i].kind;
    if (kind != NodeKind::Gpu && kind != NodeKind::Core) continue;
    if (graph.host_of(i) == host) (kind == NodeKind::Gpu ? gpus : cores).push_back(i);
  }
  if (gpus.empty() && cores.empty()) cores.push_back(host);
  return gpus.empty() ? cores : gpus;
}

RankNodes places_of_job(const Graph& graph, Rank ranks) {
  if (ranks > 0 && static_cast<size_t>(ranks) != graph.ranks.size()) {
    throw_error(Code::InvalidArgument, "the topology is that of a job of {}, not of {}; leave out -n",
                counted(graph.ranks.size(), "rank"), ranks);
  }
  RankNodes placed{.nodes = graph.ranks, .hosts = {}};
  std::map<NodeId, Rank> hosts;
  for (const NodeId node : graph.ranks) {
    placed.hosts.push_back(hosts.emplace(graph.host_of(node), static_cast<Rank>(hosts.size())).first->second);
  }
  return placed;
}

}  // namespace

RankNodes place_ranks(const Graph& graph, Rank ranks) {
  if (is_job(graph)) return places_of_job(graph, ranks);
  const std::vector<NodeId> hosts = graph.all(NodeKind::Host);
  if (hosts.empty()) throw_error(Code::InvalidArgument, "the topology has no host");
  std::vector<std::vector<NodeId>> ends;
  size_t all = 0;
  for (const NodeId host : hosts) all += ends.emplace_back(ends_of(graph, host)).size();
  const size_t wanted = ranks > 0 ? static_cast<size_t>(ranks) : all;
  if (wanted < hosts.size()) {
    throw_error(Code::InvalidArgument, "{} are too few for {}; give at least one rank a host", counted(wanted, "rank"),
                counted(hosts.size(), "host"));
  }
  RankNodes placed;
  for (size_t host = 0; host < hosts.size(); ++host) {
    const size_t first = wanted * host / hosts.size(), last = wanted * (host + 1) / hosts.size();
    const size_t here = ranks > 0 ? last - first : ends[host].size();
    // Fewer ranks than cores: spread over all of them. GPUs are given out in order.
    const bool gpus = graph.nodes[ends[host].front()].kind == NodeKind::Gpu;
    for (size_t i = 0; i < here; ++i) {
      const size_t at = gpus || here > ends[host].size() ? i % ends[host].size() : i * ends[host].size() / here;
      placed.nodes.push_back(ends[host][at]);
      placed.hosts.push_back(static_cast<Rank>(host));
    }
  }
  return placed;
}

std::shared_ptr<const plan::Grouping> groups_by_cache(const Graph& graph, const RankNodes& places) {
  std::vector<Rank> labels;
  for (size_t rank = 0; rank < places.nodes.size(); ++rank) {
    const NodeId node = places.nodes[rank];
    // The cores of a complex share a cache; those of a place beyond share none, or it is unknown.
    const bool gpu = graph.nodes[node].kind == NodeKind::Gpu;
    const NodeId cache = gpu ? topo::kNoNode : graph.enclosing(node, NodeKind::Complex);
    if (cache == topo::kNoNode || places.hosts[rank] != places.hosts.front()) return nullptr;
    labels.push_back(static_cast<Rank>(cache));
  }
  auto groups = std::make_shared<const plan::Grouping>(labels);
  return groups->has_two_levels() ? groups : nullptr;
}

}  // namespace tutti::select
