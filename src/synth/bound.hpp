// The least time that any schedule can take on a network, with a certificate: a cut that everybody can check by hand.
//
// Words. A *side* is a set of vertices. Its *way out* is the capacity of all arcs that leave it. What *must cross* are
// the blocks that ranks of the side have and some rank outside needs. One cut says: T ≥ (what must cross) / (way out).
// The *bound* is that of the tightest cut.
//
// All-gather. Each rank has one block, and a side that does not hold all ranks must let out the blocks of all its
// ranks: ForestColl's 1/x* = max over such sides S of |S ∩ ranks| / way out(S). It is not only a bound: trees reach it
// (Edmonds; synth/pack.hpp), so it is the optimum. Broadcast is the same with one block at the root (weights 0 0 1 0
// …), which makes it the smallest maximum flow from the root to a rank. Reduce-scatter and reduce are all-gather and
// broadcast on the reversed network.
//
// The tightest cut is found by Newton's method on the ratio (Dinkelbach). A source sends `capacity` of the best cut so
// far, scaled, to each rank; if some rank cannot be reached by all of that, the minimum cut towards it is tighter, and
// is the new best. Every value is a ratio of whole numbers, so nothing is rounded, and no binary search has to end.
// (ForestColl searches, then rounds to the only fraction that is near enough.)
//
// All-reduce: lower bounds only. Of any split of the ranks into p parts, each element is sent between parts 2(p − 1)
// times at least (p − 1 to join p partial sums, p − 1 to tell p − 1 parts; one-way gossip: Harary & Schwenk, 1974), and
// each time it leaves a part: T ≥ 2(p − 1)·S / (way out of all parts). Tried are two parts, hosts, single ranks, and
// the parts between which the trees of synth/bidirectional.hpp fill the links. If those trees are as fast, but for a
// thousandth part, it is the optimum.
// All-to-all: the tightest cut is a sparsest cut, which is hard to find, and even it may not be reached. All cuts are
// tried up to kAllCuts ranks; beyond, those of single ranks, of hosts and the minimum cuts towards each rank.
//
// All of it holds whatever switches do, but for all-reduce: its bound is of schedules in which ranks alone fold. Where
// switches fold too, that of synth/folding.hpp holds.
//
// Source: Zhao, Maleki, Yang, Pourreza, Krishnamurthy, ForestColl, arXiv 2402.06787, §4; Dinkelbach, On nonlinear
// fractional programming, Management Science 1967.
#pragma once

#include <string>
#include <vector>

#include "synth/network.hpp"
#include "tutti/types.hpp"

namespace tutti::synth {

inline constexpr Rank kAllCuts = 10;  ///< up to so many ranks, all-to-all's cuts are all tried

/// blocks / capacity, exact.
struct Ratio {
  int64_t blocks = 0;
  Capacity capacity = 1;
  friend bool operator<(const Ratio& a, const Ratio& b) {
    return static_cast<Wide>(a.blocks) * b.capacity < static_cast<Wide>(b.blocks) * a.capacity;
  }
  friend bool operator==(const Ratio& a, const Ratio& b) { return !(a < b) && !(b < a); }
};

/// A set of vertices, by vertex.
using Side = std::vector<bool>;

/// What a bound rests on: each of these sides has a way out, and `must.blocks` have to leave one of them.
struct Cut {
  Ratio must;               ///< blocks that leave the sides, and the capacity of all their ways out
  std::vector<Side> sides;  ///< one, or the parts of an all-reduce
};

struct Bound {
  Cut cut;
  int64_t buffer = 1;    ///< blocks in a call's buffer, as `--bytes` counts it
  bool exact = false;    ///< some schedule reaches it: else it is a lower bound, and the optimum may be worse
  double us = 0;         ///< µs: no empty message from rank to rank that is needed arrives earlier
  double unit = 1;       ///< bytes a second of one unit of capacity
  bool folding = false;  ///< it holds where switches fold (synth/folding.hpp), too

  /// Seconds for each byte of the buffer.
  double seconds_per_byte() const {
    return static_cast<double>(cut.must.blocks) / static_cast<double>(buffer) /
           (static_cast<double>(cut.must.capacity) * unit);
  }
};

/// All blocks that are of no side that lacks a rank: `weights` blocks each rank has, which all others need. The
/// tightest cut by which they pass; must.blocks is 0 for a single rank. Throws Error(InvalidArgument) if there is no
/// path from a rank with blocks to another rank.
Cut tightest_cut(const Network& network, const std::vector<int64_t>& weights);

/// Blocks that each rank has: one, or of a rooted collective those of the root alone. Throws Error(InvalidArgument) if
/// there is no such root.
std::vector<int64_t> weights_of(Collective collective, Rank ranks, Rank root = 0);

struct Fractions;

/// `trees`: those of an all-reduce that were packed for its bound; empty, if none had to be. Throws Error(Unsupported)
/// for other collectives than all-gather, reduce-scatter, all-reduce, broadcast, reduce and
/// all-to-all, and as tightest_cut() does.
Bound bound_of(const Network& network, Collective collective, Rank root = 0, Fractions* trees = nullptr);

/// µs until an empty message has come from each rank that has blocks to the rank farthest from it.
double farthest_us(const Network& network, const std::vector<int64_t>& weights);

/// The certificate: "{ranks 0-3 | ranks 4-7}: 24 GB/s cross, 4 blocks must → ≥ 22.4 ms/GiB (rates: published)". Where
/// switches fold it says of an all-reduce's bound whether it holds for them, but of a single cut, which always does.
std::string words_of(const Network& network, const Bound& bound);

/// "0-3,6": ranks in a list of vertices.
std::string ranks_text(const std::vector<Rank>& ranks);

}  // namespace tutti::synth
