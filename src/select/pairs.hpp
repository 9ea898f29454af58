// What messages between two ranks cost on a topology. A job's figures (topo::Figure) stand above those of links.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "link/cost.hpp"
#include "select/places.hpp"
#include "topo/graph.hpp"
#include "topo/host_figures.hpp"
#include "topo/paths.hpp"

namespace tutti::select {

/// Of messages from one rank to another, when nothing else is under way.
struct PairCost {
  double alpha = 0, beta = 0;
  topo::Path path;
};

/// The ranks of a topology and their links. Keeps no copy: the graph must outlive it.
class Pairs {
 public:
  Pairs(const topo::Graph& graph, RankNodes places);

  Rank ranks() const { return static_cast<Rank>(places_.nodes.size()); }
  const topo::Graph& graph() const { return graph_; }
  const RankNodes& places() const { return places_; }
  bool on_gpus() const { return graph_.nodes[places_.nodes.front()].kind == topo::NodeKind::Gpu; }
  bool same_host(Rank a, Rank b) const { return host(a) == host(b); }
  Rank host(Rank rank) const { return places_.hosts[static_cast<size_t>(rank)]; }

  /// From one rank to some others. Throws Error(InvalidArgument) if there is no path to one.
  std::vector<PairCost> from(Rank rank, const std::vector<Rank>& to) const;
  /// The figure for this pair, whose path is of this kind; null: there is none.
  const topo::Figure* figure(Rank a, Rank b, topo::PathKind kind) const;

 private:
  topo::Figure::Between relation(Rank a, Rank b) const;
  std::vector<PairCost> search(Rank rank, const std::vector<Rank>& to) const;

  const topo::Graph& graph_;
  const RankNodes places_;
  const topo::PathFinder finder_;
  const topo::HostFigures between_;
  std::vector<topo::NodeId> host_nodes_;              // by number of the host
  double farthest_us_ = 0;                            // of paths between two ranks of a host
  mutable std::vector<std::vector<PairCost>> known_;  // by sender and receiver, of few ranks
};

/// Messages that several ranks send at the same time, on the links that they share.
class Load {
 public:
  explicit Load(const topo::Graph& graph) : graph_(graph) {}
  /// A flow of `bytes` bytes for each byte of a block, from this node along a path.
  void add(topo::NodeId from, const topo::Path& path, double bytes = 1);
  /// Seconds for a byte of a block, through the busiest link.
  double beta() const;
  /// Of ports out of this host: how many are used, and the most flows of one.
  std::pair<uint32_t, double> ports_of(topo::NodeId host) const;

 private:
  const topo::Graph& graph_;
  std::map<std::pair<uint32_t, bool>, double> flows_;  // by link and direction
};

}  // namespace tutti::select
