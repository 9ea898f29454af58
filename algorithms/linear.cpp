// Linear: gather, scatter.
//
// Gather: every rank sends its block to the root. Scatter: the root sends every rank its block. The root's own block is
// a copy.
//
//             rounds   sent       received   T   (the root's)
//   gather    1        S          (n−1)·S    α + (n−1)·S·β
//   scatter   1        (n−1)·S    S          α + (n−1)·S·β   with S the bytes of one block
//
// The root must take or give (n−1)·S bytes in any case, and no block travels twice; only for small blocks and many
// ranks does a tree, with fewer messages at the root, win. Source: Thakur & Gropp, Improving the performance of
// collective operations in MPICH, EuroPVM/MPI 2003 (there as the baseline of the binomial tree).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  const View in = plan.input();
  auto lane = plan.lane();

  if (me != 0) {
    lane.lend(in.all(), 0);
    return;
  }
  const View out = plan.output();
  lane.copy(out.block(0), in.all());
  for (Rank peer = 1; peer < shape.ranks; ++peer) lane.recv(out.block(peer), peer);
}

void scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  const View out = plan.output();
  auto lane = plan.lane();

  if (me != 0) {
    lane.recv(out.all(), 0);
    return;
  }
  const View in = plan.input();
  for (Rank peer = 1; peer < shape.ranks; ++peer) lane.lend(in.block(peer), peer);
  lane.copy(out.all(), in.block(0));
}

Cost gather_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 1, .sent = 1, .received = n - 1, .stages = 1, .message = 1};
}

Cost scatter_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 1, .sent = n - 1, .received = 1, .stages = n - 1, .message = 1};
}

const Registration kGather({.collective = Collective::Gather,
                            .name = "linear",
                            .summary = "everyone sends its block to the root; one round, least bytes",
                            .allows = any_number,
                            .generate = gather,
                            .cost = gather_cost});
const Registration kScatter({.collective = Collective::Scatter,
                             .name = "linear",
                             .summary = "the root sends everyone its block; one round, least bytes",
                             .allows = any_number,
                             .generate = scatter,
                             .cost = scatter_cost});

}  // namespace
}  // namespace tutti::algorithms
