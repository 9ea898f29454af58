// Plans for small calls, whose time is that of their messages, not of their bytes.
//
// - *Trees* of any form (synth/latency.hpp): broadcast, reduce, and all-reduce as both.
// - *Exchanges* with radices r0, r1, … whose product is the number of ranks: a rank is a point of a box of that many
//   sides, and in a phase each rank exchanges with all others of its row along one side. One radix is one-shot; all
//   radices 2 are recursive doubling (halving); and where the ranks of a host follow each other, radices of (ranks of a
//   host, hosts) are a one-shot mix: all at once inside a host, and between hosts.
//   All-gather tells a row all that is known; all-reduce folds a row's partial sums; reduce-scatter tells each rank of
//   a row the partial sums of what lies on its side.
// - *Dissemination* with radix k, for any number of ranks: of n ranks, each tells all that it knows to those s, 2s, …,
//   (k − 1)s before it, for s = 1, k, k², … (all-gather; with k = 2 that of Bruck et al.).
//
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, Efficient algorithms for all-to-all communications in multiport
// message-passing systems, IEEE TPDS 1997 (radices); Ruefenacht, Bull, Booth, Generalisation of recursive doubling for
// AllReduce, Parallel Computing 2017.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "synth/latency.hpp"
#include "tutti/types.hpp"

namespace tutti::synth {

/// A way to do a small call.
struct SmallPlan {
  std::string name;  ///< "tree", "8x2", "bruck3"
  std::vector<plan::RankPlan> plans;
};

/// Broadcast, reduce or all-reduce along a tree whose root is rank 0.
std::vector<plan::RankPlan> tree_plans(Collective collective, const LatencyTree& tree);
/// All-gather, reduce-scatter or all-reduce. `radices`: of the innermost side first, along which ranks follow each
/// other; `inner_first`: in this order, else in the other.
std::vector<plan::RankPlan> exchange_plans(Collective collective, const std::vector<Rank>& radices, bool inner_first);
/// All-gather.
std::vector<plan::RankPlan> dissemination_plans(Rank ranks, Rank radix);

/// All that are tried for a collective, as far as it has any: of all-gather, reduce-scatter, all-reduce, broadcast and
/// reduce. They are right whatever `postal` says. Not verified yet.
std::vector<SmallPlan> small_plans(Collective collective, const Postal& postal);

}  // namespace tutti::synth
