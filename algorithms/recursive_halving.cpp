// Recursive halving: reduce-scatter and reduce, as part of recursive_doubling, whose mirror it is.
//
// The n ranks are folded to m = 2^L leaves (see Leaves): the odd rank of a pair gives all it has to the even one, which
// stands in for both. Each leaf answers for one part of the data. In step k = 0, 1, … L−1, leaf v and leaf v xor 2^k
// have partial sums of the same parts; each sends the other those whose leaf is like the other in bit k, and folds its
// own half, so what a leaf has halves in each step until its part is left, complete. As near leaves exchange first, and
// the two sums of a step are folded in rank order, the order of folding is the canonical one; of a reduce only where
// the root is rank 0, so the reproducible mode does without it.
//
// Reduce-scatter: the parts are the n blocks; a leaf's are its one or two ranks' own. The even rank hands on the odd's.
//   rounds L (+1 or 2)   sent (n−1)·S (n·S)   folded (n−1)·S (+n·S)   T = L·α + (n−1)·S·(β + γ)
// Reduce: the parts are m equal chunks; complete, they are gathered up the binomial tree of the leaves. The two phases
// are lanes of their own, so that a window is folded while the one before is gathered.
//   rounds 2L (+1)   sent (3/2 − 1/m)·S   received 2(m−1)/m · S (+S)   folded (m−1)/m · S (+S)
//   T = 2L·α + 2(m−1)/m · S·β + (m−1)/m · S·γ
// (in brackets: n is not a power of two). S is the call's count in bytes.
//
// As few bytes as a ring, in few rounds, where n is a power of two: it wins for middle S. Else a pair's extra step
// moves all there is once more, which pays only for small S, or where the canonical order is wanted. A partial sum is
// rounded to a 16- or 8-bit type once a step, L (+1) times. Source: Thakur,
// Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005, §4.4 and §4.5
// (Rabenseifner's reduce).

#include "algorithms/crossings.hpp"

namespace tutti::algorithms {
namespace {

/// The pieces, in a buffer, of the leaves that are like leaf `v` in their bits below `distance`.
template <typename PiecesOf>
Pieces like(const Leaves& leaves, Rank v, Rank distance, PiecesOf pieces_of) {
  Pieces pieces;
  for (Rank w = v % distance; w < leaves.m; w += distance) pieces += pieces_of(w);
  return pieces;
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rank n = shape.ranks;
  const Leaves leaves(n);
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  if (leaves.stands_by(me)) {
    lane.lend(run(in, 0, n), me - 1);
    lane.recv(out.all(), me - 1);
    return;
  }
  const Rank v = leaves.of(me);
  const bool paired = leaves.size(v) == 2;
  const View partial = plan.scratch(n);
  View sums = in;
  const auto blocks = [&](Rank w) { return run(sums, leaves.first(w), leaves.first(w + 1)); };
  if (paired) {
    lane.reduce(run(partial, 0, n), {run(in, 0, n), lane.from(me + 1)});
    sums = partial;
  }
  for (Rank distance = 1; distance < leaves.m; distance *= 2) {
    const Rank u = v ^ distance, peer = leaves.first(u);
    lane.lend(like(leaves, u, 2 * distance, blocks), peer);
    const std::vector<Source> both = in_leaf_order(v, like(leaves, v, 2 * distance, blocks), u, lane.from(peer));
    sums = partial;
    if (2 * distance < leaves.m) {
      lane.reduce(like(leaves, v, 2 * distance, blocks), both);
    } else {
      lane.complete(paired ? out.all() + Pieces(partial.block(me + 1)) : out.all(), both);
    }
  }
  if (paired) lane.lend(partial.block(me + 1), me + 1);
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Leaves leaves(shape.ranks);
  const uint32_t chunks = plan.partition(leaves.m);
  const View in = plan.input(chunks);
  auto fold = plan.lane(), gather = plan.lane();

  if (leaves.stands_by(me)) {
    fold.lend(in.all(), me - 1);
    return;
  }
  const Rank v = leaves.of(me);
  const View result = me == 0 ? plan.output(chunks) : plan.scratch(1, chunks);
  View sums = in;
  const auto chunk = [&](Rank w) { return sums[w]; };
  if (leaves.size(v) == 2) {
    fold.reduce(result.all(), {in.all(), fold.from(me + 1)});
    sums = result;
  }
  for (Rank distance = 1; distance < leaves.m; distance *= 2) {
    const Rank u = v ^ distance, peer = leaves.first(u);
    fold.lend(like(leaves, u, 2 * distance, chunk), peer);
    const std::vector<Source> both = in_leaf_order(v, like(leaves, v, 2 * distance, chunk), u, fold.from(peer));
    sums = result;
    if (2 * distance < leaves.m) {
      fold.reduce(like(leaves, v, 2 * distance, chunk), both);
    } else {
      gather.after(fold.complete(result[v], both));
    }
  }
  for (Rank bit = 1; bit < leaves.span(v); bit *= 2) {
    gather.recv(result.chunks(0, v + bit, v + 2 * bit), leaves.first(v + bit));
  }
  if (v == 0) return;
  // A single rank with no leaf under it writes there next with a message from its parent, which is also its first peer;
  // and which has read this by then, if it has scratch (its rounds follow each other). Rank 0 has none.
  const Rank parent = leaves.first(v & (v - 1));
  const Lend when = leaves.span(v) == 1 && leaves.size(v) == 1 && parent != 0 ? Lend::Always : Lend::Never;
  gather.lend(result.chunks(0, v, v + leaves.span(v)), parent, when);
}

Cost reduce_scatter_cost(const Shape& shape) {
  const Rank n = shape.ranks;
  if (n == 1) return {};
  const Leaves leaves(n);
  const Rank steps = log2_floor(n), folded = leaves.e > 0 ? 1 : 0;
  Rank taken = n - 1;  // blocks that reach the busiest rank, 0
  if (folded > 0) {
    taken = n + leaves.m - 1;
    for (Rank k = 1; k <= steps; ++k)
      taken += (leaves.e + (Rank{1} << k) - 1) >> k;  // the pairs among leaves 0, 2^k, …
  }
  Cost cost{.rounds = steps + leaves.detours(),
            .sent = n - 1 + folded,
            .received = taken,
            .folded = taken,
            .stages = steps + folded,
            .message = folded > 0 ? Ratio(n) : Ratio(n, 2),
            .chain = taken + folded};
  if (shape.groups == nullptr) return cost;
  const auto length = [&](Rank k) {  // blocks of every 2^(k+1)-th leaf
    const Rank apart = Rank{2} << k;
    return Ratio(leaves.m / apart + (leaves.e + apart - 1) / apart);
  };
  cost.between = Crossings(leaves, *shape.groups).cost(1, length, n, leaves.detours());
  return cost;
}

Cost reduce_cost(Rank n) {
  if (n == 1) return {};
  const Leaves leaves(n);
  const Rank steps = log2_floor(n), folded = leaves.e > 0 ? 1 : 0;
  return {.rounds = 2 * steps + folded,
          .sent = Ratio(3 * leaves.m - 2, 2 * leaves.m),
          .received = Ratio(folded) + Ratio(2 * (leaves.m - 1), leaves.m),
          .folded = Ratio(folded) + Ratio(leaves.m - 1, leaves.m),
          .stages = steps + 1,
          .message = folded > 0 ? Ratio(1) : Ratio(1, 2),
          .chain = Ratio(folded) + Ratio(2 * (leaves.m - 1), leaves.m),
          .handled = Ratio(folded) + Ratio(3 * (leaves.m - 1), leaves.m)};
}

const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "recursive_doubling",
                                   .summary = "exchange half of the blocks at distance 1, 2, 4, … and fold; few rounds",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = reduce_scatter_cost,
                                   .canonical = true});
const Registration kReduce({.collective = Collective::Reduce,
                            .name = "recursive_doubling",
                            .summary = "reduce-scatter at distance 1, 2, 4, …, then gather up a tree; few rounds",
                            .allows = any_number,
                            .generate = reduce,
                            .cost = reduce_cost});

}  // namespace
}  // namespace tutti::algorithms
