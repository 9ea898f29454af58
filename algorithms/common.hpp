// Arithmetic that several algorithms share: the circle, the fold to a power of two, and the binomial tree over it.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "plan/algorithm.hpp"
#include "plan/builder.hpp"

namespace tutti::algorithms {

using namespace plan;  // NOLINT: an algorithm is written in the plan's words

/// A communicator of one: its input is the result. True where that was all there is to do.
inline bool is_alone(const Shape& shape, PlanBuilder& plan) {
  if (shape.ranks > 1) return false;
  plan.lane().copy(plan.output().all(), plan.input().all());
  return true;
}

/// n ranks in a circle: 0, 1, … n−1, and 0 again.
struct Circle {
  Rank n;
  Rank forward(Rank from, Rank hops) const { return static_cast<Rank>((int64_t{from} + hops) % n); }
  Rank back(Rank from, Rank hops) const { return static_cast<Rank>((int64_t{from} - hops + n) % n); }  // hops ≤ n
  Rank after(Rank r) const { return forward(r, 1); }
  Rank before(Rank r) const { return back(r, 1); }
  /// All ranks but `me`, from the one after it: not all ranks turn to the same peer first.
  std::vector<Rank> others(Rank me) const {
    std::vector<Rank> peers;
    for (Rank hops = 1; hops < n; ++hops) peers.push_back(forward(me, hops));
    return peers;
  }
};

inline Rank log2_floor(Rank n) { return std::bit_width(static_cast<uint32_t>(n)) - 1; }
inline Rank log2_ceil(Rank n) { return std::bit_width(static_cast<uint32_t>(n - 1)); }

/// Blocks [first, last) of a view, one after the other.
inline Pieces run(const View& view, Rank first, Rank last) {
  Pieces pieces;
  for (Rank b = first; b < last; ++b) pieces += view.block(b);
  return pieces;
}

/// The operands of a fold over all ranks, in the order that they had before a root was made 0: `mine` in my place,
/// everyone else's next message in theirs.
inline std::vector<Source> in_rank_order(const Shape& shape, Rank me, const Source& mine) {
  std::vector<Source> operands;
  for (Rank original = 0; original < shape.ranks; ++original) {
    const Rank r = shape.relabelled(original);
    operands.push_back(r == me ? mine : LaneBuilder::from(r));
  }
  return operands;
}

/// The operands of a fold of two leaves' sums, in leaf order.
inline std::vector<Source> in_leaf_order(Rank v, const Source& mine, Rank u, const Source& theirs) {
  return v < u ? std::vector<Source>{mine, theirs} : std::vector<Source>{theirs, mine};
}

/// The operands of a fold up a tree: `mine`, then the next message of each child.
inline std::vector<Source> mine_and(const Pieces& mine, const std::vector<Rank>& children) {
  std::vector<Source> operands = {mine};
  for (const Rank child : children) operands.push_back(LaneBuilder::from(child));
  return operands;
}

/// n ranks folded to m = 2^⌊log2 n⌋ *leaves*. The first 2e ranks, e = n − m, pair up: leaf v < e is ranks 2v and 2v+1,
/// and the even one *stands in* for both; leaf v ≥ e is rank v + e alone. Leaves are in rank order, so the perfect
/// binary tree over them, its leaves folded first, is the canonical order of a reproducible fold.
struct Leaves {
  explicit Leaves(Rank ranks) : n(ranks), m(Rank{1} << log2_floor(ranks)), e(ranks - m) {}
  Rank n, m, e;
  /// The first rank of leaf `v`, which stands in for it; first(m) is n.
  Rank first(Rank v) const { return v < e ? 2 * v : v + e; }
  Rank size(Rank v) const { return v < e ? 2 : 1; }
  Rank of(Rank r) const { return r < 2 * e ? r / 2 : r - e; }
  /// True for the odd one of a pair.
  bool stands_by(Rank r) const { return r < 2 * e && r % 2 == 1; }
  /// Messages that the odd ranks add to the longest chain: one from, and one to, an odd rank. A chain that crosses all
  /// dimensions leads from leaf v to leaf m − 1 − v, which are both pairs only where more than half of the leaves are.
  Rank detours() const { return e == 0 ? 0 : (2 * e > m ? 2 : 1); }
  /// Leaves in the binomial subtree of leaf `v`: its lowest set bit, or all.
  Rank span(Rank v) const { return v == 0 ? m : v & -v; }
};

/// The binomial tree over the leaves, a pair's odd rank hanging under its even one. Leaf v's parent is v without its
/// lowest set bit 2^k; its children are v + 1, v + 2, v + 4, … v + 2^(k−1) (all of them below m for v = 0). So a
/// subtree is a run of ranks, and folding me, then the children in this order, is the canonical order. ⌊log2 n⌋ deep.
struct BinomialTree {
  explicit BinomialTree(Rank ranks) : leaves(ranks) {}
  Leaves leaves;

  /// kNoRank for rank 0.
  Rank parent(Rank r) const {
    if (leaves.stands_by(r)) return r - 1;
    const Rank v = leaves.of(r);
    return v == 0 ? kNoRank : leaves.first(v & (v - 1));
  }
  /// In rank order: the smallest subtree first.
  std::vector<Rank> children(Rank r) const {
    std::vector<Rank> found;
    if (leaves.stands_by(r)) return found;
    const Rank v = leaves.of(r);
    if (leaves.size(v) == 2) found.push_back(r + 1);
    for (Rank bit = 1; bit < leaves.span(v); bit *= 2) found.push_back(leaves.first(v + bit));
    return found;
  }
  /// One past the last rank of the subtree of `r`, which begins with `r`.
  Rank end(Rank r) const {
    if (leaves.stands_by(r)) return r + 1;
    const Rank v = leaves.of(r);
    return leaves.first(v + leaves.span(v));
  }
  /// Ranks under the root's last child, itself included: the largest subtree but the root's. For n > 1.
  Rank largest() const { return std::max(leaves.e, leaves.m / 2); }
};

}  // namespace tutti::algorithms
