// Swing: all-gather, reduce-scatter, all-reduce.
//
// The n ranks (n even) stand in a circle. In step s an even rank r deals with rank r + ρ(s), an odd one with r − ρ(s)
// (mod n), where ρ(s) = (1 − (−2)^(s+1)) / 3: 1, −1, 3, −5, 11, … So the two of a pair are each other's peers, they
// swing from one side to the other, and a step is about 2^(s+1) / 3 places long where recursive doubling takes 2^s.
// S is the call's count in bytes, K = ⌈log2 n⌉.
//
// All-gather: in the steps s = K−1, … 0 the two of a pair give each other every block that the other lacks. For n = 2^K
// they have none in common, and what they have doubles; else they may, in the last steps, and nothing is sent twice.
//   rounds K   sent (n−1)·S   T = K·α + (n−1)·S·β
// Reduce-scatter: the same backwards, s = 0, … K−1, near ranks first.
//   rounds K   sent (n−1)·S   folded (n−1)·S   T = K·α + (n−1)·S·(β + γ)
// All-reduce: reduce-scatter, then all-gather, of n chunks, on lanes of their own.
//   rounds 2K   sent 2(n−1)/n · S   folded (n−1)/n · S   T = 2K·α + 2(n−1)/n · S·β + (n−1)/n · S·γ
// Where n is odd, the first n − 1 ranks swing (K is theirs), and the last stands apart: it exchanges a block with each
// of them directly. That is as few bytes, but n − 1 more messages for the last rank.
//
// The least bytes there can be in few rounds; and as near ranks exchange most, and far ones are nearer than they would
// be by doubling, it wins for middle S where the ranks' network is itself a circle or a torus. The order of folding is
// not the canonical one; a result in a 16- or 8-bit type was rounded to it once a step, K times on its longest way.
// Source: De Sensi, Bonato, Saam & Hoefler, Swing: short-cutting rings for higher bandwidth allreduce, NSDI 2024, §3.

#include "algorithms/exchange.hpp"

namespace tutti::algorithms {
namespace {

/// Ranks that swing: the last rank of an odd number does not.
Rank swinging(Rank n) { return n / 2 * 2; }
bool is_apart(Rank n, Rank r) { return r == swinging(n); }

Rank rho(Rank step) {
  const Rank power = Rank{1} << (step + 1);  // of −2 it is positive where step is odd
  return (1 - (step % 2 == 1 ? power : -power)) / 3;
}

Exchanges exchanges(Rank n, Rank me) {
  const Rank even = swinging(n);
  const Rank side = me % 2 == 0 ? 1 : -1;
  // The rank `places` from `of`, counted in the direction in which `of` takes its first step.
  const auto rank_at = [&](Rank of, Rank direction, Rank places) {
    return ((of + direction * places) % even + even) % even;
  };
  std::vector<Rank> held = {0};  // places of the blocks that a rank has
  std::vector<bool> has(static_cast<size_t>(even), false);
  has[0] = true;
  Exchanges steps;
  for (Rank s = log2_ceil(even) - 1; s >= 0; --s) {
    const Rank peer = rank_at(me, side, rho(s));
    Exchange e{peer, peer, {}, {}};
    const size_t before = held.size();
    for (size_t i = 0; i < before; ++i) {
      const Rank place = held[i], from_there = rank_at(0, 1, rho(s) - place);  // the same place, counted by the peer
      if (has[static_cast<size_t>(from_there)]) continue;
      e.give.push_back(rank_at(me, side, place));
      e.take.push_back(rank_at(peer, -side, place));
      held.push_back(from_there);
    }
    for (size_t i = before; i < held.size(); ++i) has[static_cast<size_t>(held[i])] = true;
    std::sort(e.give.begin(), e.give.end());  // neighbours in memory travel together
    std::sort(e.take.begin(), e.take.end());
    steps.push_back(std::move(e));
  }
  return steps;
}

/// Folds what `sums` begins with; the last fold completes `result`.
StepRef fold(LaneBuilder& lane, Rank n, Rank me, PartialSums& sums, const Piece& result) {
  const Rank last = n - 1;
  if (is_apart(n, me)) {
    for (Rank r = 0; r < last; ++r) lane.lend(sums.at(r), r);
    return lane.complete(result, in_rank_order({.ranks = n}, me, sums.at(me)), FoldShape::Tree);
  }
  if (!is_apart(n, last)) return fold_back(exchanges(n, me), lane, sums, result);
  lane.lend(sums.at(last), last);
  return fold_back(exchanges(n, me), lane, sums, result, {lane.from(last)});
}

/// Gathers everyone's part; `out` of mine is there.
void gather(LaneBuilder& lane, Rank n, Rank me, const PieceOf& out) {
  const Rank last = n - 1;
  if (is_apart(n, me)) {
    lane.lend(out(me), Circle{n}.others(me));
    for (Rank r = 0; r < last; ++r) lane.recv(out(r), r);
    return;
  }
  if (is_apart(n, last)) lane.lend(out(me), last);
  gather_along(exchanges(n, me), lane, out);
  if (is_apart(n, last)) lane.recv(out(last), last);
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View out = plan.output();
  auto lane = plan.lane();
  lane.copy(out.block(me), plan.input().all());
  gather(lane, shape.ranks, me, [&](Rank b) { return out.block(b); });
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View in = plan.input();
  PartialSums sums(
      shape.ranks, [&](Rank b) { return in.block(b); }, [&](Rank) { return plan.scratch(1).all(); });
  auto lane = plan.lane();
  fold(lane, shape.ranks, me, sums, plan.output().all());
}

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t chunks = plan.partition(shape.ranks);
  const View in = plan.input(chunks), out = plan.output(chunks);
  const auto chunk = [&](Rank c) { return out[c]; };
  PartialSums sums(
      shape.ranks, [&](Rank c) { return in[c]; }, chunk);
  auto first = plan.lane(), second = plan.lane();
  second.after(fold(first, shape.ranks, me, sums, out[me]));
  gather(second, shape.ranks, me, chunk);
}

/// Blocks in the largest message: where n is no multiple of 4, only the last step finds blocks that both have.
Rank message(Rank n) {
  const Rank even = swinging(n), power = Rank{1} << log2_ceil(even);
  return even % 4 == 0 || even == 2 ? even / 2 : std::max(power / 4, even - power / 2);
}

Cost blocks_cost(Rank n, bool folds) {
  if (n == 1) return {};
  const Rank steps = log2_ceil(swinging(n));
  const Rank mine = is_apart(n, n - 1) ? steps + 1 : steps;  // stages of a rank that swings
  return {.rounds = steps,
          .sent = n - 1,
          .received = n - 1,
          .folded = folds ? n - 1 : 0,
          .stages = folds && is_apart(n, n - 1) ? std::max(mine, n - 1) : mine,
          .message = message(n),
          .chain = n - 1};
}

Cost all_reduce_cost(Rank n) {
  if (n == 1) return {};
  const Cost phase = blocks_cost(n, true);
  const Rank mine = static_cast<Rank>(2 * blocks_cost(n, false).stages);
  return {.rounds = 2 * phase.rounds,
          .sent = Ratio(2 * (n - 1), n),
          .received = Ratio(2 * (n - 1), n),
          .folded = Ratio(n - 1, n),
          .stages = is_apart(n, n - 1) ? std::max(mine, n) : mine,
          .message = Ratio(message(n), n),
          .chain = Ratio(2 * (n - 1), n)};
}

const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "swing",
                               .summary = "pass on all blocks held, now to one side, now to the other; least bytes",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = [](Rank n) { return blocks_cost(n, false); }});
const Registration kReduceScatter(
    {.collective = Collective::ReduceScatter,
     .name = "swing",
     .summary = "exchange and fold sums, now with one side, now with the other; least bytes",
     .allows = any_number,
     .generate = reduce_scatter,
     .cost = [](Rank n) { return blocks_cost(n, true); }});
const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "swing",
     .summary = "reduce-scatter, all-gather with peers on both sides in turn; for rings, tori",
     .allows = any_number,
     .generate = all_reduce,
     .cost = all_reduce_cost});

}  // namespace
}  // namespace tutti::algorithms
