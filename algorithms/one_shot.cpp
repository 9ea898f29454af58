// One shot: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce.
//
// Everyone who has something sends it to everyone who needs it, and who needs it folds all n contributions in one pass,
// in rank order and in the canonical shape: all ranks get the same bits. S is the call's count in bytes.
//
//                    rounds   sent       received   folded     T
//   all-reduce       1        (n−1)·S    (n−1)·S    (n−1)·S    α + (n−1)·S·(β + γ)
//   all-gather       1        (n−1)·S    (n−1)·S               α + (n−1)·S·β
//   reduce-scatter   1        (n−1)·S    (n−1)·S    (n−1)·S    α + (n−1)·S·(β + γ)
//   all-to-all       1        (n−1)·S    (n−1)·S               α + (n−1)·S·β
//   broadcast        1        (n−1)·S    S                     α + (n−1)·S·β   (the root's)
//   reduce           1        S          (n−1)·S    (n−1)·S    α + (n−1)·S·(β + γ)   (the root's)
//
// What goes to several peers is published once; where readers share the sender's memory its n−1 sendings are one write.
// One round is the least there can be, so it wins for small S. All-gather and reduce-scatter send no more bytes than
// any other algorithm, and win for large S too where all pairs of ranks are equally near. A sum of a 16- or 8-bit type
// is rounded to it once, at the end. Source: Thakur, Rabenseifner & Gropp, Optimization of collective communication
// operations in MPICH, IJHPCA 2005, §4 (the direct algorithms, there for long messages); "1PA" of MSCCL++ (arXiv
// 2504.09014).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const View in = plan.input();
  auto lane = plan.lane();

  lane.lend(in.all(), circle.others(me), Lend::OutOfPlace);  // in place, the fold below overwrites what others may read
  lane.complete(plan.output().all(), in_rank_order(shape, me, in.all()), FoldShape::Tree);
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const View in = plan.input(), out = plan.output();
  const std::vector<Rank> others = circle.others(me);
  auto lane = plan.lane();

  lane.lend(in.all(), others);  // first: they copy while this rank copies its own block
  lane.copy(out.block(me), in.all());
  for (const Rank peer : others) lane.recv(out.block(peer), peer);
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const View in = plan.input();
  auto lane = plan.lane();

  for (const Rank peer : circle.others(me)) lane.lend(in.block(peer), peer);
  lane.complete(plan.output().all(), in_rank_order(shape, me, in.block(me)), FoldShape::Tree);
}

void all_to_all(const Shape& shape, Rank me, PlanBuilder& plan) {
  const Circle circle{shape.ranks};
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  for (Rank k = 1; k < shape.ranks; ++k) {
    const Rank to = circle.forward(me, k);
    lane.lend(in.block(to), to);
  }
  lane.copy(out.block(me), in.block(me));
  for (Rank k = 1; k < shape.ranks; ++k) {
    const Rank from = circle.back(me, k);
    lane.recv(out.block(from), from);
  }
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const View out = plan.output();
  auto lane = plan.lane();

  if (me == 0) {
    lane.lend(plan.input().all(), circle.others(me));
    lane.copy(out.all(), plan.input().all());
  } else {
    lane.recv(out.all(), 0);
  }
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View in = plan.input();
  auto lane = plan.lane();

  if (me == 0) {
    lane.complete(plan.output().all(), in_rank_order(shape, me, in.all()), FoldShape::Tree);
  } else {
    lane.lend(in.all(), 0);
  }
}

Cost everyone_cost(Rank n, bool folds, int64_t stages) {
  if (n == 1) return {};
  return {.rounds = 1, .sent = n - 1, .received = n - 1, .folded = folds ? n - 1 : 0, .stages = stages, .message = 1};
}

Cost broadcast_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 1, .sent = n - 1, .received = 1, .stages = 1, .message = 1};
}

Cost reduce_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 1, .sent = 1, .received = n - 1, .folded = n - 1, .stages = 1, .message = 1, .handled = n - 1};
}

const Registration kAllReduce({.collective = Collective::AllReduce,
                               .name = "one_shot",
                               .summary = "everyone sends all to everyone and folds all; one round, (n−1)·S bytes",
                               .allows = any_number,
                               .generate = all_reduce,
                               .cost = [](Rank n) { return everyone_cost(n, true, 1); },
                               .canonical = true});
const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "one_shot",
                               .summary = "everyone sends its block to everyone; one round",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = [](Rank n) { return everyone_cost(n, false, 1); },
                               .lends = true});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "one_shot",
                                   .summary = "everyone sends each block to its owner, who folds all n; one round",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = [](Rank n) { return everyone_cost(n, true, n - 1); },
                                   .lends = true,
                                   .canonical = true});
const Registration kAllToAll({.collective = Collective::AllToAll,
                              .name = "one_shot",
                              .summary = "everyone sends all its blocks, then receives; one round",
                              .allows = any_number,
                              .generate = all_to_all,
                              .cost = [](Rank n) { return everyone_cost(n, false, n - 1); },
                              .lends = true});
const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "one_shot",
                               .summary = "the root sends all to everyone; one round",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = broadcast_cost,
                               .lends = true});
const Registration kReduce({.collective = Collective::Reduce,
                            .name = "one_shot",
                            .summary = "everyone sends all to the root, which folds all n; one round",
                            .allows = any_number,
                            .generate = reduce,
                            .cost = reduce_cost,
                            .canonical = true});

}  // namespace
}  // namespace tutti::algorithms
