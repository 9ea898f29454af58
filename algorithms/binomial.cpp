// Binomial tree: broadcast, reduce, all-reduce. (All-gather and reduce-scatter: binomial_blocks.cpp.)
//
// Rank 0 is the root; the subtree under a rank is a run of ranks, and a rank's children head subtrees of 1, 2, 4, …
// leaves (see BinomialTree: the odd ranks that do not fit a power of two hang under their even neighbours). The tree is
// d = ⌊log2 n⌋ deep, and the root, the busiest rank, has c = ⌈log2 n⌉ children. S is the call's count in bytes.
//
// Down, or broadcast: a rank hears from its parent and passes it on to all its children, in one publication.
// Up, or reduce: a rank folds its own share and its children's, in rank order, in one pass, and sends that to its
// parent. All-reduce: up, then down. They are two lanes, linked only where the root turns: while one window goes down,
// later ones come up, so that k windows take about 2d + k messages' time, not 2d·k.
//
//                rounds   sent   received   folded   T
//   broadcast    d        c·S    S                   d·α + c·S·β
//   reduce       d        S      c·S        c·S      d·α + c·S·(β + γ)
//   all-reduce   2d       c·S    c·S        c·S      2d·α + 2c·S·β + c·S·γ
//
// Few rounds, and only n − 1 pairs of ranks talk, the least there can be: it wins for small S, and where links are dear
// to open. Its order of folding is the canonical one: a reduce that must keep it for any root (Shape::root) climbs the
// tree of the ranks as they were, and sends its result from the top of that to the root, in one round more. A partial
// sum is rounded to a 16- or 8-bit type once at each rank on its way up, d times at most.
// Source: Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005, §4.2
// and §4.5.

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  const BinomialTree tree(shape.ranks);
  const std::vector<Rank> children = tree.children(me);
  const View out = plan.output();
  auto down = plan.lane();

  if (me == 0) {
    if (!children.empty()) down.lend(plan.input().all(), children);
    down.copy(out.all(), plan.input().all());
    return;
  }
  down.recv(out.all(), tree.parent(me));
  if (!children.empty()) down.lend(out.all(), children);
}

/// Up the tree of the ranks as they were before the root was made 0, then from its top to the root.
void reduce_in_their_order(const Shape& shape, Rank me, PlanBuilder& plan) {
  const BinomialTree tree(shape.ranks);
  const Rank here = shape.original(me), top = shape.relabelled(0);
  std::vector<Rank> children;
  for (const Rank child : tree.children(here)) children.push_back(shape.relabelled(child));
  const View in = plan.input();
  auto up = plan.lane(), across = plan.lane();

  if (children.empty()) {
    up.lend(in.all(), shape.relabelled(tree.parent(here)));
  } else {
    const View partial = plan.scratch(1);
    const std::vector<Source> all = mine_and(in.all(), children);
    if (me == top) {
      across.after(up.complete(partial.all(), all)).send(partial.all(), 0);
    } else {
      up.reduce(partial.all(), all);
      up.send(partial.all(), shape.relabelled(tree.parent(here)));
    }
  }
  if (me == 0) across.recv(plan.output().all(), top);
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  if (shape.root != 0) return reduce_in_their_order(shape, me, plan);
  const BinomialTree tree(shape.ranks);
  const std::vector<Rank> children = tree.children(me);
  const View in = plan.input();
  auto up = plan.lane();

  if (me == 0) {
    up.complete(plan.output().all(), mine_and(in.all(), children));
  } else if (children.empty()) {
    up.lend(in.all(), tree.parent(me));
  } else {
    const View partial = plan.scratch(1);
    up.reduce(partial.all(), mine_and(in.all(), children));
    up.send(partial.all(), tree.parent(me));
  }
}

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const BinomialTree tree(shape.ranks);
  const std::vector<Rank> children = tree.children(me);
  const View in = plan.input(), out = plan.output();
  auto up = plan.lane(), down = plan.lane();

  if (me == 0) {
    const StepRef turn = up.complete(out.all(), mine_and(in.all(), children));
    down.after(turn).lend(out.all(), children);
    return;
  }
  if (children.empty()) {
    up.lend(in.all(), tree.parent(me));
  } else {
    const View partial = plan.scratch(1);
    up.reduce(partial.all(), mine_and(in.all(), children));
    up.lend(partial.all(), tree.parent(me));
  }
  down.recv(out.all(), tree.parent(me));
  if (!children.empty()) down.lend(out.all(), children);
}

Cost broadcast_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = log2_floor(n), .sent = log2_ceil(n), .received = 1, .stages = 1, .message = 1};
}

Cost reduce_cost(const Shape& shape) {
  const Rank n = shape.ranks;
  if (n == 1) return {};
  const Ratio c = log2_ceil(n);
  return {.rounds = log2_floor(n) + (shape.root != 0 ? 1 : 0),
          .sent = 1,
          .received = c,
          .folded = c,
          .stages = 1,
          .message = 1,
          .handled = c + (shape.root != 0 ? 1 : 0)};
}

Cost all_reduce_cost(Rank n) {
  if (n == 1) return {};
  const Ratio c = log2_ceil(n);
  const int64_t stages = n < 4 ? 1 : 2;  // below 4 no rank is both a child and a parent
  return {.rounds = 2 * log2_floor(n), .sent = c, .received = c, .folded = c, .stages = stages, .message = 1};
}

const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "binomial",
                               .summary = "down a tree whose subtrees double; few rounds, fewest links",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = broadcast_cost});
const Registration kReduce({.collective = Collective::Reduce,
                            .name = "binomial",
                            .summary = "up a tree whose subtrees double, folding; few rounds, fewest links",
                            .allows = any_number,
                            .generate = reduce,
                            .cost = reduce_cost,
                            .canonical = true});
const Registration kAllReduce({.collective = Collective::AllReduce,
                               .name = "binomial",
                               .summary = "up and down a tree whose subtrees double; few rounds, fewest links",
                               .allows = any_number,
                               .generate = all_reduce,
                               .cost = all_reduce_cost,
                               .canonical = true});

}  // namespace
}  // namespace tutti::algorithms
