// Double binary tree: all-reduce, broadcast, reduce.
//
// In a binary tree half of the ranks are leaves, which only take or only give; so its inner ranks send twice what they
// receive, and a leaf's way out lies idle. Two trees, each with one half of the data, in which the leaves of one are
// the inner ranks of the other, use all ways. One tree over m ranks, at *positions* 1 … m, is in order: odd positions
// are leaves, and one divisible by 2^k, but not by 2^(k+1), stands k levels above them, its children 2^(k−1) to its
// left and right (to the right, the nearest such that is there); 2^⌊log2 m⌋ is the top. In the first tree rank i is at
// position i + 1; the second is its mirror image where m is even, the same moved on by one rank where m is odd. Either
// turns even positions into odd ones (or, at the end, into a leaf in both): nobody is inner twice.
//
// All-reduce: all n ranks are in the trees; up, folding, to the top, and down again. Broadcast and reduce: the n − 1
// ranks but the root are, and the root stands above both tops. Up and down of each tree are lanes of their own, linked
// where the top turns, so that windows follow each other closely. S is the call's count in bytes, d = ⌊log2 n⌋, D = 1 +
// ⌊log2 (n−1)⌋.
//
//                rounds   sent   received   folded   T, for k windows
//   all-reduce   2d       2S     2S         S        2d·α + (1 + 2d/k)·2S·β + S·γ
//   broadcast    D        S      S                   D·α + (1 + D/k)·S·β
//   reduce       D        S      S          S        D·α + (1 + D/k)·S·(β + γ)
// (n = 2 and 3: all-reduce sends 1 and 3/2 S.)
//
// Nearly the few rounds of a binomial tree and the bytes of a chain: it wins for middle and large S among many ranks.
// A partial sum is rounded once at each inner rank on its way up, ⌊log2 n⌋ times at most (one more under a root), the
// last giving the result. Not the canonical order.
// Source: Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
// Computing 2009; Jeaugey, Massively scale your deep learning training with NCCL 2.4, 2019.

#include "algorithms/double_tree.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t halves = plan.partition(2);
  const View in = plan.input(halves), out = plan.output(halves);

  for (Rank half = 0; half < 2; ++half) {
    const TreePlace place = DoubleTree{0, shape.ranks}.place(half, me);
    auto up = plan.lane(), down = plan.lane();
    if (place.parent == kNoRank) {
      const StepRef turn = up.complete(out[half], mine_and(in[half], place.children));
      down.after(turn).lend(out[half], place.children);
      continue;
    }
    if (place.children.empty()) {
      up.lend(in[half], place.parent);
    } else {
      const View partial = plan.scratch(1, halves);
      up.reduce(partial[half], mine_and(in[half], place.children));
      up.lend(partial[half], place.parent);
    }
    down.recv(out[half], place.parent);
    if (!place.children.empty()) down.lend(out[half], place.children);
  }
}

/// Where a rank stands when rank 0 is above both trees of the others.
TreePlace below_root(Rank n, Rank half, Rank me) {
  const DoubleTree trees{1, n - 1};
  if (me == 0) return {kNoRank, {trees.top(half)}};
  TreePlace place = trees.place(half, me);
  if (place.parent == kNoRank) place.parent = 0;
  return place;
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t halves = plan.partition(2);
  const View in = plan.input(halves), out = plan.output(halves);

  for (Rank half = 0; half < 2; ++half) {
    const TreePlace place = below_root(shape.ranks, half, me);
    auto down = plan.lane();
    if (me == 0) {
      down.lend(in[half], place.children);
      down.copy(out[half], in[half]);
      continue;
    }
    down.recv(out[half], place.parent);
    if (!place.children.empty()) down.lend(out[half], place.children);
  }
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t halves = plan.partition(2);
  const View in = plan.input(halves);

  for (Rank half = 0; half < 2; ++half) {
    const TreePlace place = below_root(shape.ranks, half, me);
    auto up = plan.lane();
    if (me == 0) {
      up.complete(plan.output(halves)[half], mine_and(in[half], place.children));
    } else if (place.children.empty()) {
      up.lend(in[half], place.parent);
    } else {
      const View partial = plan.scratch(1, halves);
      up.reduce(partial[half], mine_and(in[half], place.children));
      up.send(partial[half], place.parent);
    }
  }
}

Cost all_reduce_cost(Rank n) {
  if (n == 1) return {};
  const Ratio moved = n < 4 ? Ratio(n, 2) : 2;  // below 4 no rank is both a child and a parent in one tree
  return {.rounds = 2 * log2_floor(n),
          .sent = moved,
          .received = moved,
          .folded = n == 2 ? Ratio(1, 2) : 1,
          .stages = n < 4 ? 2 : 3,
          .message = Ratio(1, 2)};
}

template <bool folds>
Cost one_way(Rank n) {
  if (n == 1) return {};
  return {.rounds = 1 + log2_floor(n - 1),
          .sent = 1,
          .received = 1,
          .folded = folds ? 1 : 0,
          .stages = 2,
          .message = Ratio(1, 2),
          .handled = n == 2           ? Ratio(1)
                     : folds && n > 3 ? Ratio(2)
                                      : Ratio(3, 2)};
}

const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "double_tree",
     .summary = "up and down two binary trees, each with half; leaves of one are inner in the other",
     .allows = any_number,
     .generate = all_reduce,
     .cost = all_reduce_cost});
const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "double_tree",
                               .summary = "half down either of two binary trees; full bandwidth in about log2 n rounds",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = one_way<false>});
const Registration kReduce({.collective = Collective::Reduce,
                            .name = "double_tree",
                            .summary = "half up either of two binary trees; full bandwidth in about log2 n rounds",
                            .allows = any_number,
                            .generate = reduce,
                            .cost = one_way<true>});

}  // namespace
}  // namespace tutti::algorithms
