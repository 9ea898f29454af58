// Bruck: all-to-all. (Bruck's all-gather is that of recursive_doubling.cpp.)
//
// A block has j hops to go round the circle, from rank r to rank r + j (mod n), and goes them in the powers of two that
// make up j: in step k = 0, 1, … K−1, K = ⌈log2 n⌉, every rank sends rank r + 2^k all blocks whose j has bit k, its own
// and those it was sent in earlier steps, in one message. So it has at most one block of each j at any time, and keeps
// it where the one that stays will be: in the output, at the place of rank r − j's.
//
//   rounds K   sent B·S   T = K·α + B·S·β   with S the bytes of one block, and
//   B = all bits set in the numbers 0 … n−1: n/2 · log2 n where n is a power of two
//
// Fewest rounds, but a block travels once for each bit of j, about K/2 times: it wins for small S.
// Source: Bruck, Ho, Kipnis, Upfal & Weathersby, Efficient algorithms for all-to-all communications in multiport
// message-passing systems, IEEE TPDS 1997, §3 (radix 2; without its rotations, as a message may gather blocks from
// wherever they lie).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void generate(const Shape& shape, Rank me, PlanBuilder& plan) {
  const Rank n = shape.ranks;
  const Circle circle{n};
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  lane.copy(out.block(me), in.block(me));
  for (Rank distance = 1; distance < n; distance *= 2) {
    Pieces give, take;
    for (Rank hops = distance; hops < n; ++hops) {
      if ((hops & distance) == 0) continue;
      const bool mine = hops % distance == 0;  // its first move: no lower bit is set
      const Piece place = out.block(circle.back(me, hops));
      give += mine ? in.block(circle.forward(me, hops)) : place;
      take += place;
    }
    // Blocks that were on the way lie where the next ones arrive, before anyone can know that they were read.
    const bool only_mine = distance == 1 || distance + 1 == n;
    lane.lend(give, circle.forward(me, distance), only_mine ? Lend::Always : Lend::Never);
    lane.recv(take, circle.back(me, distance));
  }
}

Cost cost(Rank n) {
  Rank all = 0, most = 0;
  for (Rank bit = 1; bit < n; bit *= 2) {
    const Rank with_bit = n / (2 * bit) * bit + std::max<Rank>(0, n % (2 * bit) - bit);  // of the numbers 0 … n−1
    all += with_bit;
    most = std::max(most, with_bit);
  }
  return {.rounds = n > 1 ? log2_ceil(n) : 0,
          .sent = all,
          .received = all,
          .stages = n > 1 ? log2_ceil(n) : 0,
          .message = most,
          .chain = all};
}

const Registration kBruck({.collective = Collective::AllToAll,
                           .name = "bruck",
                           .summary = "blocks go their hops in powers of two, together; fewest rounds, more bytes",
                           .allows = any_number,
                           .generate = generate,
                           .cost = cost});

}  // namespace
}  // namespace tutti::algorithms
