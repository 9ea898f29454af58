// Recursive doubling: all-reduce, all-gather, broadcast. (Reduce-scatter and reduce: recursive_halving.cpp.)
//
// In step k = 0, 1, 2, … a rank exchanges all it has with the peer at distance 2^k, so what it has doubles in each
// step. S is the call's count in bytes, L = ⌊log2 n⌋, K = ⌈log2 n⌉.
//
// All-reduce: n ranks are folded to m = 2^L leaves (see Leaves). The odd rank of a pair gives its share to the even
// one, which stands in for both; leaf v exchanges partial sums with leaf v xor 2^k; and the odd ranks are told the
// result. Each rank folds the two sums of a step in rank order: all get the same bits, in the canonical order.
//   rounds L (+1 or 2)   sent L·S (+S)   folded L·S (+S)   T = L·(α + S·(β + γ))   (in brackets: n is not a power of
//   two)
// All-gather: blocks [r, r + 2^k) are at rank r before step k, and it sends them to rank r − 2^k (mod n; in the last
// step as many as are missing there). No folding is needed, whatever n.
//   rounds K   sent (n−1)·S   T = K·α + (n−1)·S·β
// Broadcast: the buffer is cut into n chunks, and scattered down the binomial tree (a rank keeps its own chunk and
// hands on those of the ranks under it), then all-gathered as above; the root has all of it, and hears nothing. The two
// are lanes of their own, so that a window is scattered while the one before is gathered.
//   rounds L + K (n = 2^L: 2L − 1)   sent 2(n−1)/n · S   T = (L + K)·α + 2(n−1)/n · S·β
//
// A partial sum is rounded to a 16- or 8-bit type once a step, L (+1) times. Few rounds: all-reduce wins for small S,
// where one-shot has too many peers; all-gather and broadcast up to middle S. Source: Thakur, Rabenseifner & Gropp,
// Optimization of collective communication operations in MPICH, IJHPCA 2005, §4.5, §4.1 (with Bruck's choice of peers,
// so that any n will do) and §4.2 (van de Geijn's broadcast).

#include "algorithms/crossings.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Leaves leaves(shape.ranks);
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  if (leaves.stands_by(me)) {
    lane.lend(in.all(), me - 1);
    lane.recv(out.all(), me - 1);
    return;
  }
  const Rank v = leaves.of(me);
  const bool paired = leaves.size(v) == 2;
  Piece sum = in.all();
  if (paired) {
    lane.reduce(out.all(), {sum, lane.from(me + 1)});
    sum = out.all();
  }
  for (Rank distance = 1; distance < leaves.m; distance *= 2) {
    const Rank u = v ^ distance, peer = leaves.first(u);
    const std::vector<Source> both = in_leaf_order(v, sum, u, lane.from(peer));
    lane.lend(sum, peer, sum.buffer == Buffer::Input ? Lend::OutOfPlace : Lend::Never);  // the fold below overwrites it
    if (distance * 2 < leaves.m) {
      lane.reduce(out.all(), both);
    } else {
      lane.complete(out.all(), both);
    }
    sum = out.all();
  }
  if (paired) lane.lend(out.all(), me + 1);
}

/// Pieces of `count` ranks from `first` on, round the circle.
template <typename PieceOf>
Pieces around(const Circle& circle, Rank first, Rank count, PieceOf piece_of) {
  Pieces pieces;
  for (Rank i = 0; i < count; ++i) pieces += piece_of(circle.forward(first, i));
  return pieces;
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rank n = shape.ranks;
  const Circle circle{n};
  const View in = plan.input(), out = plan.output();
  const auto block = [&](Rank r) { return out.block(r); };
  auto lane = plan.lane();

  lane.lend(in.all(), circle.before(me));  // its own block: the peer need not wait for the copy
  lane.copy(out.block(me), in.all());
  lane.recv(out.block(circle.after(me)), circle.after(me));
  for (Rank distance = 2; distance < n; distance *= 2) {
    const Rank to = circle.back(me, distance), from = circle.forward(me, distance);
    const Rank count = std::min(distance, n - distance);
    lane.lend(around(circle, me, count, block), to);
    lane.recv(around(circle, from, count, block), from);
  }
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rank n = shape.ranks;
  const Circle circle{n};
  const BinomialTree tree(n);
  const uint32_t chunks = plan.partition(n);
  const View in = plan.input(chunks), out = plan.output(chunks);
  const View under = plan.scratch(me > 0 && tree.end(me) > me + 1 ? 1 : 0, chunks);  // chunks of the ranks under me
  const View& mine = me == 0 ? in : out;
  const auto chunk = [&](const View& view) { return [&view](Rank r) { return view[r]; }; };
  auto down = plan.lane(), gather = plan.lane();

  if (me > 0) {
    Pieces part = out[me];
    for (Rank r = me + 1; r < tree.end(me); ++r) part += under[r];
    gather.after(down.recv(part, tree.parent(me)));
  }
  const std::vector<Rank> children = tree.children(me);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {  // the deepest subtree first
    down.lend((me == 0 ? in : under).chunks(0, *child, tree.end(*child)), *child);
  }
  if (me == 0) down.copy(out.all(), in.all());
  for (Rank distance = 1; distance < n; distance *= 2) {
    const Rank to = circle.back(me, distance), from = circle.forward(me, distance);
    const Rank count = std::min(distance, n - distance);
    if (to != 0) gather.lend(around(circle, me, count, chunk(mine)), to);
    if (me != 0) gather.recv(around(circle, from, count, chunk(out)), from);
  }
}

Cost all_reduce_cost(const Shape& shape) {
  const Rank n = shape.ranks;
  const Leaves leaves(n);
  const Rank steps = log2_floor(n), folded = leaves.e > 0 ? 1 : 0;
  const Ratio each = steps + folded;
  Cost cost{.rounds = steps + leaves.detours(),
            .sent = each,
            .received = each,
            .folded = each,
            .stages = steps + folded,
            .message = n > 1 ? 1 : 0};
  if (shape.groups == nullptr) return cost;
  cost.between = Crossings(leaves, *shape.groups)
                     .cost(
                         1, [](Rank) { return Ratio(1); }, 1, leaves.detours());
  return cost;
}

Cost all_gather_cost(Rank n) {
  if (n == 1) return {};
  const Ratio message = BinomialTree(n).largest();
  return {.rounds = log2_ceil(n),
          .sent = n - 1,
          .received = n - 1,
          .stages = log2_ceil(n),
          .message = message,
          .chain = n - 1};
}

Cost broadcast_cost(Rank n) {
  if (n == 1) return {};
  const Rank largest = BinomialTree(n).largest();
  return {.rounds = power_of_two(n) ? 2 * log2_ceil(n) - 1 : log2_floor(n) + log2_ceil(n),
          .sent = Ratio(2 * (n - 1), n),
          .received = Ratio(n - 1 + largest, n),
          .stages = 2 * log2_ceil(n),
          .message = Ratio(largest, n),
          .chain = Ratio(2 * (n - 1), n)};
}

const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "recursive_doubling",
     .summary = "exchange and fold sums at distance 1, 2, 4, …; about log2 n rounds of S bytes",
     .allows = any_number,
     .generate = all_reduce,
     .cost = all_reduce_cost,
     .direct_stores = true,
     .canonical = true});
const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "recursive_doubling",
                               .summary = "pass on all blocks held, to distance 1, 2, 4, …; fewest rounds, least bytes",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = all_gather_cost});
const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "recursive_doubling",
                               .summary = "scatter chunks down a tree, all-gather them at distance 1, 2, 4, …",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = broadcast_cost});

}  // namespace
}  // namespace tutti::algorithms
