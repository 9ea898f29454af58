// Ring: all-reduce, all-gather, reduce-scatter, broadcast, reduce.
//
// The n ranks stand in a circle; each sends only to `next` and hears only from `prev`. S is the call's count in bytes.
//
// Reduce-scatter: block b starts its trip at rank b+1, and every rank it reaches folds its own share in, so after n−1
// hops it arrives, complete, at rank b.
//   rounds n−1   sent (n−1)·S   folded (n−1)·S   T = (n−1)·(α + S·β + S·γ)
// All-gather: every rank passes on the block it heard last, its own first, until each has been everywhere.
//   rounds n−1   sent (n−1)·S   T = (n−1)·(α + S·β)
// All-reduce: the buffer is cut into n equal chunks; reduce-scatter, then all-gather, of chunks. Chunk c starts at rank
// c and is complete at rank c−1.
//   rounds 2(n−1)   sent 2(n−1)/n · S   folded (n−1)/n · S   T = 2(n−1)·α + 2(n−1)/n · S·β + (n−1)/n · S·γ
// Broadcast and reduce use the circle without its last link, a chain: the whole buffer goes down 0, 1, … n−1, or comes
// up n−1, … 1, 0 and every rank folds its share in. Nothing is cut; the chain works on successive windows at the same
// time.
//   rounds n−1   sent S   folded S (reduce)   T = (n−1)·(α + w·β) + S·β, with windows of w bytes
//
// Sends as few bytes as any algorithm can, for any n, and each rank needs two neighbours only; its latency grows with
// n, so it wins for large S. Its order of folding is that of the circle: not the canonical one. Source: Patarasuk &
// Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009, §4; Chan, Heimlich,
// Purkayastha & van de Geijn, Collective communication: theory, practice, and experience, 2007, §4 (the bucket
// algorithms).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const Rank next = circle.after(me), prev = circle.before(me), last = shape.ranks - 1;
  const uint32_t chunks = plan.partition(shape.ranks);
  const View in = plan.input(chunks), out = plan.output(chunks);
  const View partial = plan.scratch(shape.ranks > 2 ? 1 : 0, chunks);
  auto lane = plan.lane();

  lane.lend(in[me], next);
  for (Rank hop = 1; hop < last; ++hop) {  // reduce-scatter: fold in, pass on
    const Rank c = circle.back(me, hop);
    lane.reduce(partial[c], {lane.from(prev), in[c]});
    lane.lend(partial[c], next);
  }
  const Rank mine = next;  // the chunk after mine has been everywhere but here
  lane.complete(out[mine], {lane.from(prev), in[mine]});
  lane.lend(out[mine], next);
  for (Rank hop = 0; hop < last; ++hop) {  // all-gather: keep, pass on, until it is back where it came from
    const Rank c = circle.back(me, hop);
    lane.recv(out[c], prev);
    if (hop < last - 1) lane.lend(out[c], next);
  }
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const Rank next = circle.after(me), prev = circle.before(me);
  const View in = plan.input(), out = plan.output();
  auto lane = plan.lane();

  lane.copy(out.block(me), in.all());
  lane.lend(out.block(me), next);
  for (Rank hop = 1; hop < shape.ranks; ++hop) {
    const Rank b = circle.back(me, hop);
    lane.recv(out.block(b), prev);
    if (hop < shape.ranks - 1) lane.lend(out.block(b), next);
  }
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Circle circle{shape.ranks};
  const Rank next = circle.after(me), prev = circle.before(me);
  const View in = plan.input(), out = plan.output();
  const View partial =
      plan.scratch(shape.ranks > 2 ? 1 : 0);  // for all hops: a fold goes straight into the next message
  auto lane = plan.lane();

  lane.lend(in.block(prev), next);
  for (Rank hop = 2; hop < shape.ranks; ++hop) {
    lane.reduce(partial.all(), {lane.from(prev), in.block(circle.back(me, hop))});
    lane.send(partial.all(), next);
  }
  lane.complete(out.all(), {lane.from(prev), in.block(me)});
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View out = plan.output();
  auto lane = plan.lane();

  if (me == 0) {
    lane.copy(out.all(), plan.input().all());
  } else {
    lane.recv(out.all(), me - 1);
  }
  if (me + 1 < shape.ranks) lane.lend(out.all(), me + 1);
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View in = plan.input();
  auto lane = plan.lane();

  if (me == shape.ranks - 1) {
    lane.lend(in.all(), me - 1);
  } else if (me > 0) {
    const View partial = plan.scratch(1);
    lane.reduce(partial.all(), {in.all(), lane.from(me + 1)});
    lane.send(partial.all(), me - 1);
  } else {
    lane.complete(plan.output().all(), {in.all(), lane.from(1)});
  }
}

Cost twice_round(Rank n) {
  if (n == 1) return {};
  return {.rounds = 2 * (n - 1),
          .sent = Ratio(2 * (n - 1), n),
          .received = Ratio(2 * (n - 1), n),
          .folded = Ratio(n - 1, n),
          .stages = 1,
          .message = Ratio(1, n)};
}

Cost once_round(Rank n, bool folds) {
  if (n == 1) return {};
  return {.rounds = n - 1, .sent = n - 1, .received = n - 1, .folded = folds ? n - 1 : 0, .stages = 1, .message = 1};
}

Cost chain(Rank n, bool folds) {
  if (n == 1) return {};
  return {.rounds = n - 1, .sent = 1, .received = 1, .folded = folds ? 1 : 0, .stages = 1, .message = 1};
}

const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "ring",
     .summary = "chunks travel twice round a circle of ranks; least bytes, latency grows with n",
     .allows = any_number,
     .generate = all_reduce,
     .cost = twice_round});
const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "ring",
                               .summary = "blocks travel once round a circle of ranks; two neighbours, n−1 rounds",
                               .allows = any_number,
                               .generate = all_gather,
                               .cost = [](Rank n) { return once_round(n, false); }});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "ring",
                                   .summary = "blocks collect their shares once round a circle of ranks; n−1 rounds",
                                   .allows = any_number,
                                   .generate = reduce_scatter,
                                   .cost = [](Rank n) { return once_round(n, true); }});
const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "ring",
                               .summary = "windows travel down a chain of ranks; least bytes, latency grows with n",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = [](Rank n) { return chain(n, false); }});
const Registration kReduce(
    {.collective = Collective::Reduce,
     .name = "ring",
     .summary = "windows come up a chain of ranks, each folding in; least bytes, latency grows with n",
     .allows = any_number,
     .generate = reduce,
     .cost = [](Rank n) { return chain(n, true); }});

}  // namespace
}  // namespace tutti::algorithms
