// PAT, parallel aggregated trees: all-gather, reduce-scatter.
//
// Every block goes down a binomial tree from its owner, all trees alike but for where they begin: the rank `o` places
// after the owner hands the block on to the ranks o + d, for the powers of two d below o's lowest set bit (for the
// owner, below n), the farthest first. A *step* is one d and some places o: each rank sends the rank d after it the
// blocks of the ranks o before it, for all those o, in one message. Far messages carry few blocks, and near ones many;
// in Bruck's order it is the other way round.
//
// With all places of a d in one step, K = ⌈log2 n⌉ steps are enough, but the last has n/2 blocks in a message, and as
// many partial sums are kept at a time. So at most 16 go together: places are divided into runs of R, R = 2 or the
// smallest power of two that makes 16 runs or fewer. The ways between the first places of the runs come first, one d
// a step; then the trees within all runs grow in parallel, one edge a step, each branch to its end before the next.
// Reduce-scatter: the same backwards. As a branch is done before the next begins, at most log2 R partial sums of a run
// exist at a time, and a new one takes the place of one that was sent.
//
//   n = 2 … 32 (R = 2):  rounds K   in general:  rounds K − log2 R + R − 1   S is the call's count in bytes
//   sent (n−1)·S   over one link ⌊n/2⌋·S   folded (n−1)·S (reduce-scatter)
//   T = rounds·α + (n−1)·S·(β + γ)   scratch 16·log2 R blocks or fewer
//
// The least bytes there can be, for any n, about log2 n rounds among few ranks and n/16 among many, in little memory:
// it wins for middle S where far links are slow, or short of room. The order of folding is not the canonical one; a
// result in a 16- or 8-bit type was rounded to it once a fold, K times on its longest way.
// Source: Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, arXiv 2506.20252, 2025
// (in NCCL from 2.23 on).

#include "algorithms/exchange.hpp"

namespace tutti::algorithms {
namespace {

constexpr Rank kMaxRuns = 16;

/// log2 R.
Rank log2_run(Rank n) { return std::max<Rank>(1, log2_ceil(n) - log2_ceil(kMaxRuns)); }

class Trees {
 public:
  Trees(Rank n, Rank me) : circle_{n}, me_(me), run_(Rank{1} << log2_run(n)) {}

  Exchanges exchanges() && {
    for (Rank distance = Rank{1} << (log2_ceil(circle_.n) - 1); distance >= run_; distance /= 2) {
      step(distance, 0, 2 * distance);
    }
    grow(0, run_);
    return std::move(steps_);
  }

 private:
  /// In every run, the tree below its place `first`: the places up to first + size.
  void grow(Rank first, Rank size) {
    for (Rank distance = size / 2; distance > 0; distance /= 2) {
      step(distance, first, run_);
      grow(first + distance, distance);
    }
  }
  /// The blocks at the places first, first + stride, … go on by `distance`, where the circle is not round yet.
  void step(Rank distance, Rank first, Rank stride) {
    Exchange e{circle_.forward(me_, distance), circle_.back(me_, distance), {}, {}};
    for (Rank place = first; place + distance < circle_.n; place += stride) {
      e.give.push_back(circle_.back(me_, place));
      e.take.push_back(circle_.back(me_, place + distance));
    }
    steps_.push_back(std::move(e));
  }

  Circle circle_;
  Rank me_;
  Rank run_;  // R
  Exchanges steps_;
};

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (!is_alone(shape, plan)) all_gather_along(Trees(shape.ranks, me).exchanges(), me, plan);
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  // In runs of up to 4, only one place but the first has others below it: no sum takes the place of another.
  const Places places = log2_run(shape.ranks) > 2 ? Places::Again : Places::Once;
  reduce_scatter_along(Trees(shape.ranks, me).exchanges(), shape, plan, places);
}

Cost cost(Rank n, bool folds) {
  if (n == 1) return {};
  const Rank run = Rank{1} << log2_run(n);
  return {.rounds = log2_ceil(n) - log2_run(n) + run - 1,
          .sent = n - 1,
          .received = n - 1,
          .folded = folds ? n - 1 : 0,
          .stages = log2_ceil(n),
          .message = (n - 1 + run - 1) / run,
          .link = n / 2,
          .chain = n - 1};
}

const Registration kAllGather(
    {.collective = Collective::AllGather,
     .name = "pat",
     .summary = "n equal trees at once, far ranks first, up to 16 blocks a message; least bytes",
     .allows = any_number,
     .generate = all_gather,
     .cost = [](Rank n) { return cost(n, false); }});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "pat",
                                   .summary = "n equal trees at once, near ranks first, in little scratch; least bytes",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = [](Rank n) { return cost(n, true); }});

}  // namespace
}  // namespace tutti::algorithms
