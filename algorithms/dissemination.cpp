// Dissemination: barrier.
//
// In step k = 0, 1, … ⌈log2 n⌉ − 1, rank r tells rank r + 2^k that it has come, and hears it of rank r − 2^k (both mod
// n). After step k a rank knows of the 2^(k+1) ranks up to and with itself, so after the last, of all. The messages are
// empty.
//
//   rounds ⌈log2 n⌉   sent 0   T = ⌈log2 n⌉·α
//
// No fewer rounds can do, for any n.
// Source: Hensgen, Finkel & Manber, Two algorithms for barrier synchronization, Int. J. of Parallel Programming 1988,
// §3.

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void generate(const Shape& shape, Rank me, PlanBuilder& plan) {
  const Circle circle{shape.ranks};
  auto lane = plan.lane();

  for (Rank k = 0; k < log2_ceil(shape.ranks); ++k) {
    const Rank hops = Rank{1} << k;
    lane.send({}, circle.forward(me, hops));
    lane.recv({}, circle.back(me, hops));
  }
}

Cost cost(Rank n) { return {.rounds = log2_ceil(n), .stages = log2_ceil(n)}; }

const Registration kDissemination({.collective = Collective::Barrier,
                                   .name = "dissemination",
                                   .summary = "everyone tells the rank 1, 2, 4, … places after it; fewest rounds",
                                   .allows = any_number,
                                   .generate = generate,
                                   .cost = cost});

}  // namespace
}  // namespace tutti::algorithms
