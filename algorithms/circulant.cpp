// Circulant: all-gather, reduce-scatter, all-reduce.
//
// n is halved, rounding up, until 1 is left: n = s₀ > s₁ > … > s_K = 1, where s' follows s if s' = ⌈s/2⌉. There are
// K = ⌈log2 n⌉ such steps, whatever n: no power of two is needed. Blocks are counted from the rank itself: block j of
// rank r is rank r + j's (all mod n). S is the call's count in bytes.
//
// Reduce-scatter: before the step from s to s', rank r has partial sums of its blocks 0 … s−1. It sends s' … s−1 to
// rank r + s', where they are the blocks 0 … s−s'−1, and folds what it hears from rank r − s' into those of its own.
// At s = 1 its block 0 is left, complete.
//   rounds K   sent (n−1)·S   folded (n−1)·S   T = K·α + (n−1)·S·(β + γ)
// All-gather: the same backwards. Rank r has blocks 0 … s'−1, sends 0 … s−s'−1 to rank r − s' and receives s' … s−1.
//   rounds K   sent (n−1)·S   T = K·α + (n−1)·S·β
// All-reduce: reduce-scatter, then all-gather, of n chunks, on lanes of their own.
//   rounds 2K   sent 2(n−1)/n · S   folded (n−1)/n · S   T = 2K·α + 2(n−1)/n · S·β + (n−1)/n · S·γ
//
// The least bytes there can be, in the fewest rounds that can do, for any n: what other algorithms of about log2 n
// rounds reach for powers of two only. It wins for middle S. A step's blocks are a run of ranks, once round the circle,
// so messages are one or two pieces of memory. The order of folding is not the canonical one; a result in a 16- or
// 8-bit type was rounded to it once a step, K times on its longest way.
// Source: Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234, 2024, §2.

#include "algorithms/exchange.hpp"

namespace tutti::algorithms {
namespace {

/// `count` ranks from `first` on, round the circle.
std::vector<Rank> around(const Circle& circle, Rank first, Rank count) {
  std::vector<Rank> ranks;
  for (Rank i = 0; i < count; ++i) ranks.push_back(circle.forward(first, i));
  return ranks;
}

Exchanges exchanges(Rank n, Rank me) {
  const Circle circle{n};
  Exchanges steps;
  for (Rank s = n; s > 1; s = (s + 1) / 2) {
    const Rank half = (s + 1) / 2;  // s'
    const Rank to = circle.back(me, half), from = circle.forward(me, half);
    steps.push_back({to, from, around(circle, me, s - half), around(circle, from, s - half)});
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (!is_alone(shape, plan)) all_gather_along(exchanges(shape.ranks, me), me, plan);
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (!is_alone(shape, plan)) reduce_scatter_along(exchanges(shape.ranks, me), shape, plan);
}

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (!is_alone(shape, plan)) all_reduce_along(exchanges(shape.ranks, me), shape, me, plan);
}

Cost blocks_cost(Rank n, bool folds) {
  if (n == 1) return {};
  return {.rounds = log2_ceil(n),
          .sent = n - 1,
          .received = n - 1,
          .folded = folds ? n - 1 : 0,
          .stages = log2_ceil(n),
          .message = n / 2,
          .chain = n - 1};
}

Cost all_reduce_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 2 * log2_ceil(n),
          .sent = Ratio(2 * (n - 1), n),
          .received = Ratio(2 * (n - 1), n),
          .folded = Ratio(n - 1, n),
          .stages = 2 * log2_ceil(n),
          .message = Ratio(n / 2, n),
          .chain = Ratio(2 * (n - 1), n)};
}

const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "circulant",
                               .summary = "pass on a run of blocks, n halved backwards; fewest rounds, least bytes",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = [](Rank n) { return blocks_cost(n, false); }});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "circulant",
                                   .summary = "send half of the sums on, fold the other; fewest rounds, least bytes",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = [](Rank n) { return blocks_cost(n, true); }});
const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "circulant",
     .summary = "reduce-scatter, all-gather by halving n; 2·log2 n rounds, least bytes, any n",
     .allows = any_number,
     .generate = all_reduce,
     .cost = all_reduce_cost});

}  // namespace
}  // namespace tutti::algorithms
