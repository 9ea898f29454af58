// Packs spanning trees into a network of ranks: as many as the demand says start at each rank, each reaches all ranks,
// and no arc carries more of them than its capacity.
//
// Words. A *batch* is a number of equal trees of one root that are still growing: its *members* are the ranks reached.
// To *grow* it, an arc (x, y) from a member to a rank that is none is added to all of its trees. Afterwards the rest
// must still be possible: into each set T of ranks, what is left of the arcs' capacities must be enough for all trees
// that have no member in T yet. Growing by (x, y) takes from the arcs into those T that have y inside and x outside;
// those that had no member of the batch also need less. So only sets with a member matter: their *room* is
//   (capacity into T) − (trees of other batches without a member in T),
// and the smallest room is a minimum cut between x and y, with a vertex for each other batch that is tied to its
// members. If there is room for some of the batch's trees only, the batch divides: the others go on without this arc.
// An arc without room stays so while the batch grows, because no room becomes larger; so each is tried once.
//
// Edmonds proved that some arc always has room (while the rest is possible), so packing never turns back. Of all arcs
// the one nearest to the root is taken, then the one with the most capacity: flat trees are faster for small calls, and
// fill sooner for large ones.
//
// Source: Edmonds, Edge-disjoint branchings, 1973; Bang-Jensen & Frank; Bérczi & Frank, Packing arborescences, 2010;
// ForestColl, arXiv 2402.06787, §5.3.
#pragma once

#include <functional>
#include <vector>

#include "synth/split.hpp"

namespace tutti::synth {

/// `copies` trees that are alike.
struct Tree {
  Rank root = 0;
  int64_t copies = 1;
  std::vector<Rank> parents;  ///< by rank; of the root: kNoRank
  std::vector<Rank> order;    ///< the root first, and each rank after its parent

  std::vector<std::vector<Rank>> children() const;
  /// Of the longest way down.
  Rank depth() const;
};

/// Is told how many of how many ranks have been reached, of all trees together.
using PackProgress = std::function<void(uint64_t done, uint64_t all)>;

/// Trees in the order of their roots. Throws Error(InvalidArgument) if `network` has switches or does not support the
/// demand.
std::vector<Tree> pack(const Network& network, const Demand& demand, const PackProgress& progress = {});

}  // namespace tutti::synth
