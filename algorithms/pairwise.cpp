// Pairwise: all-to-all.
//
// In step k = 1 … n−1, rank r sends its block for rank r+k and receives from rank r−k (both mod n), so in every step
// each rank is in one sending and one receiving pair, and no rank is sent to by two. The block for itself is a copy.
//
//   rounds n−1   sent (n−1)·S   received (n−1)·S   T = (n−1)·(α + S·β)   with S the bytes of one block
//
// Sends as few bytes as can be; wins for all but small blocks, where fewer, larger messages pay.
// Source: Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005,
// §4.3.

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void generate(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  for (Rank k = 1; k < shape.ranks; ++k) {
    const Rank to = circle.forward(me, k), from = circle.back(me, k);
    lane.lend(in.block(to), to);
    if (k == 1) lane.copy(out.block(me), in.block(me));  // while its first peer is on the way
    lane.recv(out.block(from), from);
  }
}

Cost cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = n - 1, .sent = n - 1, .received = n - 1, .stages = n - 1, .message = 1};
}

const Registration kPairwise({.collective = Collective::AllToAll,
                              .name = "pairwise",
                              .summary = "in step k, to the k-th rank after and from the k-th before; least bytes",
                              .allows = any_number,
                              .generate = generate,
                              .cost = cost});

}  // namespace
}  // namespace tutti::algorithms
