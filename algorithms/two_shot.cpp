// Two shot: all-reduce, broadcast, reduce.
//
// The buffer is cut into chunks, one an owner. First shot: every owner gets its chunk from everyone who has it (and
// folds all n contributions, in rank order and in the canonical shape). Second shot: every owner sends its chunk to
// everyone who needs it. The root of a broadcast or a reduce owns no chunk, as it is already one end of every message.
// S is the call's count in bytes.
//
//                chunks   rounds   sent           received       folded         T
//   all-reduce   n        2        2(n−1)/n · S   2(n−1)/n · S   (n−1)/n · S    2α + 2(n−1)/n · S·β + (n−1)/n · S·γ
//   broadcast    n−1      2        S              S                             2α + (2n−3)/(n−1) · S·β
//   reduce       n−1      2        S              S              S              2α + 2·S·β + S·γ
//
// Over one link go 2/n · S in an all-reduce, one chunk in the others.
//
// As few bytes as a ring in two rounds instead of 2(n−1), but each rank needs n−1 peers: it wins for middle S, and for
// large S where all pairs of ranks are equally near and n is small.
// A sum of a 16- or 8-bit type is rounded to it once, at the end.
// Of all-gather and reduce-scatter either shot is the whole of it: that is one_shot.
// Source: Rabenseifner, Optimization of collective reduction operations, ICCS 2004, §3 (reduce-scatter then
// all-gather); "2PA" of MSCCL++ (arXiv 2504.09014).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const std::vector<Rank> others = circle.others(me);
  const uint32_t chunks = plan.partition(shape.ranks);
  const View in = plan.input(chunks), out = plan.output(chunks);
  auto lane = plan.lane();

  for (const Rank owner : others) lane.lend(in[owner], owner);
  lane.complete(out[me], in_rank_order(shape, me, in[me]), FoldShape::Tree);
  lane.lend(out[me], others);
  for (const Rank owner : others) lane.recv(out[owner], owner);
}

// Rank r > 0 owns chunk r − 1.
Rank chunk_of(Rank owner) { return owner - 1; }

/// The owners but `me`, from the one after it.
std::vector<Rank> other_owners(Rank n, Rank me) {
  std::vector<Rank> owners = Circle{n}.others(me);
  std::erase(owners, 0);
  return owners;
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const std::vector<Rank> owners = other_owners(shape.ranks, me);
  const uint32_t chunks = plan.partition(shape.ranks - 1);
  const View in = plan.input(chunks), out = plan.output(chunks);
  auto lane = plan.lane();

  if (me == 0) {
    for (const Rank owner : owners) lane.lend(in[chunk_of(owner)], owner);
    lane.copy(out.all(), in.all());
    return;
  }
  lane.recv(out[chunk_of(me)], 0);
  if (!owners.empty()) lane.lend(out[chunk_of(me)], owners);
  for (const Rank owner : owners) lane.recv(out[chunk_of(owner)], owner);
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const std::vector<Rank> owners = other_owners(shape.ranks, me);
  const uint32_t chunks = plan.partition(shape.ranks - 1);
  const View in = plan.input(chunks);
  auto lane = plan.lane();

  for (const Rank owner : owners) lane.lend(in[chunk_of(owner)], owner);
  if (me == 0) {
    const View out = plan.output(chunks);
    for (const Rank owner : owners) lane.recv(out[chunk_of(owner)], owner);
  } else {
    const View result = plan.scratch(1, chunks);
    const Rank mine = chunk_of(me);
    lane.complete(result[mine], in_rank_order(shape, me, in[mine]), FoldShape::Tree);
    lane.lend(result[mine], 0);
  }
}

Cost all_reduce_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = 2,
          .sent = Ratio(2 * (n - 1), n),
          .received = Ratio(2 * (n - 1), n),
          .folded = Ratio(n - 1, n),
          .stages = n == 2 ? 1 : n,
          .message = Ratio(1, n),
          .link = Ratio(2, n)};
}

Cost broadcast_cost(Rank n) {
  if (n == 1) return {};
  return {.rounds = n == 2 ? 1 : 2, .sent = 1, .received = 1, .stages = n - 1, .message = Ratio(1, n - 1)};
}

Cost reduce_cost(Rank n) {
  if (n == 1) return {};
  return {
      .rounds = 2, .sent = 1, .received = 1, .folded = 1, .stages = n - 1, .message = Ratio(1, n - 1), .handled = 2};
}

const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "two_shot",
     .summary = "everyone folds one chunk of n and sends it to everyone; least bytes, 2 rounds",
     .allows = any_number,
     .generate = all_reduce,
     .cost = all_reduce_cost,
     .direct_stores = true,
     .canonical = true});
const Registration kBroadcast(
    {.collective = Collective::Broadcast,
     .name = "two_shot",
     .summary = "the root sends everyone a chunk, and they exchange them; least bytes, 2 rounds",
     .allows = any_number,
     .generate = broadcast,
     .cost = broadcast_cost});
const Registration kReduce(
    {.collective = Collective::Reduce,
     .name = "two_shot",
     .summary = "everyone but the root folds one chunk and sends it there; least bytes, 2 rounds",
     .allows = any_number,
     .generate = reduce,
     .cost = reduce_cost,
     .canonical = true});

}  // namespace
}  // namespace tutti::algorithms
