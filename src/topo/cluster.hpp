// Several hosts' topologies as one, joined by a network.
#pragma once

#include <span>

#include "topo/graph.hpp"

namespace tutti::topo {

/// All hosts of all parts, in order. If there are several, one fabric joins their NICs: any two ports can use their
/// full rate (how switches are wired is not known). Ranks keep the order of the parts. Throws Error(InvalidArgument)
/// if it becomes too large.
Graph merge(std::span<const Graph> parts);

/// `hosts` copies of one host (or of several). The names of hosts get numbers.
Graph cluster(const Graph& part, uint32_t hosts);

/// One rank's place: the number of its host's graph among the parts, and the processors that it may use.
struct RankPlace {
  uint32_t part = 0;
  Cores processors;
};
/// merge(), with these ranks in place of the parts' own. Each part is a single host.
Graph merge_ranks(std::span<const Graph> parts, std::span<const RankPlace> ranks);

}  // namespace tutti::topo
