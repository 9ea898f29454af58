// Rabenseifner, or halving and doubling: all-reduce.
//
// The n ranks are folded to m = 2^L leaves (see Leaves): the odd rank of a pair gives all it has to the even one, which
// stands in for both. The buffer is cut into m chunks.
// Halving (reduce-scatter): in step k = 0, 1, … L−1, leaf v and leaf v xor 2^k have partial sums of the same run of
// chunks. The one whose bit k is 0 keeps the first half of it, the other the second: each sends the half that it does
// not keep and folds the one that it does. After the last step a leaf has one chunk, complete: the one whose number is
// v with its bits reversed.
// Doubling (all-gather): the same steps backwards, k = L−1, … 0. The two exchange their runs, which join into one.
// Last, the even rank of a pair sends the odd one the result.
//
//   rounds 2L (+2)   sent 2(m−1)/m · S (+S)   folded (m−1)/m · S (+S)
//   T = 2L·α + 2(m−1)/m · S·β + (m−1)/m · S·γ
// (in brackets: n is not a power of two). S is the call's count in bytes.
//
// Each message is one piece of memory. The phases are lanes of their own: while one window is gathered, the next is
// folded. As near leaves exchange first, and the two sums of a step are folded in rank order, the order of folding is
// the canonical one. As few bytes as a ring in few rounds, where n is a power of two: it wins for middle S. Else a
// pair's extra steps move all there is twice more, which pays only for small S, or where the canonical order is wanted.
// A result in a 16- or 8-bit type was rounded to it once a step, L (+1) times.
// Source: Rabenseifner, Optimization of collective reduction operations, ICCS 2004, §4.1; Thakur, Rabenseifner & Gropp,
// Optimization of collective communication operations in MPICH, IJHPCA 2005, §4.5.

#include "algorithms/crossings.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Leaves leaves(shape.ranks);
  const uint32_t chunks = plan.partition(leaves.m);
  const View in = plan.input(chunks), out = plan.output(chunks);
  auto fold = plan.lane(), gather = plan.lane();

  if (leaves.stands_by(me)) {
    fold.lend(in.all(), me - 1);
    gather.recv(out.all(), me - 1);
    return;
  }
  const Rank v = leaves.of(me);
  View sums = in;
  if (leaves.size(v) == 2) {
    fold.reduce(out.all(), {in.all(), fold.from(me + 1)});
    sums = out;
  }
  Rank first = 0, size = leaves.m;  // my run of chunks
  for (Rank distance = 1; distance < leaves.m; distance *= 2) {
    const Rank u = v ^ distance, peer = leaves.first(u), middle = first + size / 2;
    const bool upper = (v & distance) != 0;
    fold.lend(upper ? sums.chunks(0, first, middle) : sums.chunks(0, middle, first + size), peer);
    if (upper) first = middle;
    size /= 2;
    const Piece to = out.chunks(0, first, first + size);
    const std::vector<Source> both = in_leaf_order(v, sums.chunks(0, first, first + size), u, fold.from(peer));
    sums = out;
    if (size > 1) {
      fold.reduce(to, both);
    } else {
      gather.after(fold.complete(to, both));
    }
  }
  for (Rank distance = leaves.m / 2; distance > 0; distance /= 2) {
    const Rank peer = leaves.first(v ^ distance);
    const Rank other = (v & distance) != 0 ? first - size : first + size;  // the peer's run
    gather.lend(out.chunks(0, first, first + size), peer);
    gather.recv(out.chunks(0, other, other + size), peer);
    first = std::min(first, other);
    size *= 2;
  }
  if (leaves.size(v) == 2) gather.lend(out.all(), me + 1);
}

Cost cost_of(const Shape& shape) {
  const Rank n = shape.ranks;
  if (n == 1) return {};
  const Leaves leaves(n);
  const Rank steps = log2_floor(n), folded = leaves.e > 0 ? 1 : 0;
  const Ratio once = Ratio(leaves.m - 1, leaves.m);
  Cost cost{.rounds = 2 * (steps + folded),
            .sent = once + once + Ratio(folded),
            .received = once + once + Ratio(folded),
            .folded = once + Ratio(folded),
            .stages = 2 * steps + folded,
            .message = folded > 0 ? Ratio(1) : Ratio(1, 2),
            .chain = once + once + Ratio(2 * folded)};
  if (shape.groups == nullptr) return cost;
  const auto length = [](Rank k) { return Ratio(1, int64_t{2} << k); };
  cost.between = Crossings(leaves, *shape.groups).cost(2, length, 1, 2);
  return cost;
}

const Registration kRabenseifner(
    {.collective = Collective::AllReduce,
     .name = "rabenseifner",
     .summary = "fold halves at distance 1, 2, 4, …, then gather them backwards; 2·log2 n rounds",
     .allows = any_number,
     .generate = all_reduce,
     .cost = cost_of,
     .canonical = true});

}  // namespace
}  // namespace tutti::algorithms
