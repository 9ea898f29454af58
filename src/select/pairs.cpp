#include "select/pairs.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "topo/constants.hpp"

namespace tutti::select {

using topo::Figure;
using topo::NodeId;
using topo::Path;

namespace {

/// Of paths inside hosts; only so many ranks are looked at as can be in reasonable time, since hosts are usually alike.
double farthest_of(const topo::PathFinder& finder, const RankNodes& places) {
  constexpr size_t kMaxPairSources = 64;
  double farthest = 0;
  for (size_t from = 0; from < std::min(kMaxPairSources, places.nodes.size()); ++from) {
    std::vector<NodeId> ends;
    for (size_t to = 0; to < places.nodes.size(); ++to) {
      if (to != from && places.hosts[to] == places.hosts[from]) ends.push_back(places.nodes[to]);
    }
    if (ends.empty()) continue;
    for (const Path& path : finder.from(places.nodes[from], ends)) farthest = std::max(farthest, path.us);
  }
  return farthest;
}

}  // namespace

Pairs::Pairs(const topo::Graph& graph, RankNodes places)
    : graph_(graph), places_(std::move(places)), finder_(graph), between_(graph), farthest_us_(0) {
  for (size_t i = 0; i < places_.nodes.size(); ++i) {
    const auto host = static_cast<size_t>(places_.hosts[i]);
    if (host_nodes_.size() <= host) host_nodes_.resize(host + 1, topo::kNoNode);
    host_nodes_[host] = graph.host_of(places_.nodes[i]);
  }
  if (is_job(graph)) farthest_us_ = farthest_of(finder_, places_);
}

Figure::Between Pairs::relation(Rank a, Rank b) const {
  if (!same_host(a, b)) return Figure::Between::Hosts;
  const auto process = [&](Rank rank) { return graph_.processes[static_cast<size_t>(rank)]; };
  return !graph_.processes.empty() && process(a) == process(b) ? Figure::Between::Threads : Figure::Between::Processes;
}

const Figure* Pairs::figure(Rank a, Rank b, topo::PathKind kind) const {
  const Figure::Between between = relation(a, b);
  const Figure* general = nullptr;
  for (const Figure& figure : graph_.figures) {
    if (figure.between != between || figure.a != topo::kNoNode) continue;
    if (figure.over.empty()) general = &figure;
    if (!figure.over.empty() && figure.over == name_of(kind)) return &figure;
  }
  if (between != Figure::Between::Hosts) return general;
  const NodeId one = host_nodes_[static_cast<size_t>(host(a))], other = host_nodes_[static_cast<size_t>(host(b))];
  const Figure* const own = between_.of(one, other);
  return own == nullptr ? general : own;
}

std::vector<PairCost> Pairs::from(Rank rank, const std::vector<Rank>& to) const {
  constexpr Rank kFew = 64;
  if (ranks() > kFew) return search(rank, to);
  known_.resize(static_cast<size_t>(ranks()));
  std::vector<PairCost>& mine = known_[static_cast<size_t>(rank)];
  if (mine.empty()) {
    std::vector<Rank> others;
    for (Rank peer = 0; peer < ranks(); ++peer) {
      if (peer != rank) others.push_back(peer);
    }
    mine = search(rank, others);
    mine.insert(mine.begin() + rank, PairCost{});
  }
  std::vector<PairCost> costs;
  for (const Rank peer : to) costs.push_back(mine[static_cast<size_t>(peer)]);
  return costs;
}

std::vector<PairCost> Pairs::search(Rank rank, const std::vector<Rank>& to) const {
  std::vector<NodeId> ends;
  for (const Rank peer : to) ends.push_back(places_.nodes[static_cast<size_t>(peer)]);
  std::vector<Path> paths = finder_.from(places_.nodes[static_cast<size_t>(rank)], ends);
  std::vector<PairCost> costs;
  for (size_t i = 0; i < to.size(); ++i) {
    Path& path = paths[i];
    const Figure* const known = figure(rank, to[i], path.kind);
    if (path.kind == topo::PathKind::None && known == nullptr) {
      throw_error(Code::InvalidArgument, "the topology has no path between ranks {} and {}; does it have a NIC?", rank,
                  to[i]);
    }
    PairCost cost{.alpha = path.us * 1e-6, .beta = path.gbps > 0 ? 1 / (path.gbps * 1e9) : 0};
    cost.path = std::move(path);
    if (known == nullptr && !on_gpus() && same_host(rank, to[i])) {
      // The path's figures are a cache line's way and one copy; a message between processes takes more, and two copies.
      cost.alpha += machine_constants().shm_alpha;
      cost.beta = std::max(cost.beta, machine_constants().shm_beta);
    }
    if (known != nullptr && known->gbps <= 0) cost.alpha += known->us * 1e-6;
    if (known != nullptr && known->gbps > 0) {
      // The figure is that of the farthest ranks, or of all paths of a kind; nearer ranks have a shorter path. Ranks
      // that share a core are not near: one waits while the other runs.
      const bool apart =
          known->between == Figure::Between::Hosts || !known->over.empty() || cost.path.kind <= topo::PathKind::SameGpu;
      const double nearer = apart ? 0 : farthest_us_ - cost.path.us;
      cost.alpha = std::max(known->us / 4, known->us - std::max(0.0, nearer)) * 1e-6;
      cost.beta = 1 / (known->gbps * 1e9);
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

void Load::add(NodeId from, const Path& path, double bytes) {
  NodeId at = from;
  for (const uint32_t i : path.links) {
    const topo::Link& link = graph_.links[i];
    flows_[{i, link.a == at}] += bytes;
    at = link.a == at ? link.b : link.a;
  }
}

double Load::beta() const {
  double most = 0;
  for (const auto& [way, flows] : flows_) most = std::max(most, flows / (graph_.links[way.first].gbps * 1e9));
  return most;
}

std::pair<uint32_t, double> Load::ports_of(NodeId host) const {
  std::set<NodeId> nics;
  double most = 1;
  for (const auto& [way, flows] : flows_) {
    const topo::Link& link = graph_.links[way.first];
    if (link.kind != topo::LinkKind::Network) continue;
    const NodeId nic = graph_.nodes[link.a].kind == topo::NodeKind::Nic ? link.a : link.b;
    if (graph_.host_of(nic) != host) continue;
    nics.insert(nic);
    most = std::max(most, flows);
  }
  return {static_cast<uint32_t>(nics.size()), most};
}

}  // namespace tutti::select
