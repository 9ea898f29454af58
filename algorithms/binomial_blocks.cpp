// Binomial tree, with blocks: all-gather, reduce-scatter. (The tree, and its other collectives: binomial.cpp.)
//
// All-gather: up, a rank sends its parent the blocks of its subtree, which are a run of ranks; the root then has all n,
// and they go down, in one publication a rank. Reduce-scatter: up, a rank folds all n blocks of its own and its
// children's and sends them to its parent; down, it sends each child the blocks of that child's subtree. Up and down
// are two lanes, linked only where the root turns.
//
//                    rounds   sent            received        folded    T
//   all-gather       2d       n·c·S           (n − 1 + s)·S             2d·α + (c + 1)·n·S·β
//   reduce-scatter   2d       (n − 1 + s)·S   n·c·S           n·c·S     2d·α + (c + 1)·n·S·β + n·c·S·γ
// with S the bytes of one block, d = ⌊log2 n⌋, c = ⌈log2 n⌉, and s the ranks under the root's last child.
//
// Far more bytes than needed, and twice the rounds; but only n − 1 pairs of ranks talk: it wins for small S where links
// are dear to open. Its order of folding is the canonical one. A partial sum is rounded to a 16- or 8-bit type once at
// each rank on its way up, d times at most.
// Source: Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005, §4.4
// (there as the older algorithm).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const BinomialTree tree(shape.ranks);
  const std::vector<Rank> children = tree.children(me);
  const View in = plan.input(), out = plan.output();
  auto up = plan.lane(), down = plan.lane();

  StepRef turn;
  if (me == 0) up.copy(out.block(0), in.all());
  for (const Rank child : children) turn = up.recv(run(out, child, tree.end(child)), child);
  if (me == 0) {
    down.after(turn).lend(run(out, 0, shape.ranks), children);
    return;
  }
  up.lend(in.all() + run(out, me + 1, tree.end(me)), tree.parent(me));
  down.recv(run(out, 0, shape.ranks), tree.parent(me));
  if (!children.empty()) down.lend(run(out, 0, shape.ranks), children);
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const BinomialTree tree(shape.ranks);
  const std::vector<Rank> children = tree.children(me);
  const View out = plan.output();
  const Pieces in = run(plan.input(), 0, shape.ranks);
  const View under = plan.scratch(tree.end(me) - me - 1);  // the results of the ranks under me, rank me + 1's first
  const Pieces results = out.all() + run(under, 0, tree.end(me) - me - 1);
  auto up = plan.lane(), down = plan.lane();

  if (me == 0) {
    down.after(up.complete(results, mine_and(in, children)));
  } else {
    if (children.empty()) {
      up.lend(in, tree.parent(me));
    } else {
      const Pieces partial = run(plan.scratch(shape.ranks), 0, shape.ranks);
      up.reduce(partial, mine_and(in, children));
      up.lend(partial, tree.parent(me));
    }
    down.recv(results, tree.parent(me));
  }
  for (const Rank child : children) {
    // A child without scratch may fall behind in this lane by any number of rounds, while its other lane goes on.
    const Lend when = tree.children(child).empty() ? Lend::Never : Lend::Always;
    down.lend(run(under, child - me - 1, tree.end(child) - me - 1), child, when);
  }
}

Cost all_gather_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 2 * log2_floor(n),
          .sent = n * log2_ceil(n),
          .received = n - 1 + BinomialTree(n).largest(),
          .stages = n < 4 ? 1 : 2,  // below 4 no rank is both a child and a parent
          .message = n,
          .chain = n - 1 + n * log2_floor(n)};
}

Cost reduce_scatter_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 2 * log2_floor(n),
          .sent = n - 1 + BinomialTree(n).largest(),
          .received = n * log2_ceil(n),
          .folded = n * log2_ceil(n),
          .stages = log2_ceil(n),
          .message = n,
          .chain = n - 1 + n * log2_floor(n)};
}

const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "binomial",
                               .summary = "blocks are gathered up a tree and go down it together; fewest links",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = all_gather_cost});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "binomial",
                                   .summary = "blocks are folded up a tree and scattered down it; fewest links",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = reduce_scatter_cost,
                                   .canonical = true});

}  // namespace
}  // namespace tutti::algorithms
