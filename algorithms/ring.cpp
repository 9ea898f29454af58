// Ring, one or several: all-reduce, all-gather, reduce-scatter.
//
// The n ranks stand in a circle; each sends only to `next` and hears only from `prev`. S is the call's count in bytes.
//
// Reduce-scatter: block b starts its trip at the rank after b, and every rank it reaches folds its own share in, so
// after n−1 hops it arrives, complete, at rank b.
//   rounds n−1   sent (n−1)·S   folded (n−1)·S   T = (n−1)·(α + S·β + S·γ)
// All-gather: every rank passes on the block it heard last, its own first, until each has been everywhere.
//   rounds n−1   sent (n−1)·S   T = (n−1)·(α + S·β)
// All-reduce: the buffer is cut into n equal chunks; reduce-scatter, then all-gather, of chunks. Chunk c starts at rank
// c and is complete at the rank before c.
//   rounds 2(n−1)   sent 2(n−1)/n · S   folded (n−1)/n · S   T = 2(n−1)·α + 2(n−1)/n · S·β + (n−1)/n · S·γ
//
// Several rings run beside each other in lanes of their own, each with an equal part of every block. What ring i calls
// next is `stride` ranks on: strides are the numbers coprime to n, for only those lead past every rank, the smallest
// first, and each followed by its opposite: 1, −1, then the smallest above 1, … So two rings are one circle in both
// directions, and four of them share no link where n has four such numbers (all n from 5 on but 6); below, links are
// used again. Rounds, bytes and folds are those of one ring; a message is 1/k, and a link carries 1/k, for k rings.
//
// Sends as few bytes as any algorithm can, for any n, and each rank needs two neighbours only; its latency grows with
// n, so it wins for large S. Two rings win where links carry as much in either direction at the same time; four, where
// a rank's links to different peers do not share one wire.
// A partial sum is rounded n−1 times, at every hop, the last giving the result; its order is that of the circle, not
// the canonical one. Source: Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations,
// JPDC 2009, §4; Chan, Heimlich, Purkayastha & van de Geijn, Collective communication: theory, practice, and
// experience, 2007, §4 (the bucket algorithms); Jain & Sabharwal, Optimal bucket algorithms for large MPI collectives
// on torus interconnects, ICS 2010 (several rings at a time).

#include <numeric>

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

/// One of the rings: a circle in strides.
struct Ring {
  Rank n, number, stride;
  Rank back(Rank from, Rank hops) const {
    return static_cast<Rank>((from + int64_t{n - stride} * hops) % n);  // n − stride is the way back
  }
  Rank before(Rank r) const { return back(r, 1); }
  Rank after(Rank r) const { return back(r, n - 1); }
};

std::vector<Ring> rings(Rank n, Rank count) {
  std::vector<Rank> strides;
  for (Rank stride = 1; 2 * stride <= n && static_cast<Rank>(strides.size()) < count; ++stride) {
    if (std::gcd(stride, n) != 1) continue;
    strides.push_back(stride);
    if (stride != n - stride) strides.push_back(n - stride);
  }
  std::vector<Ring> found;
  for (Rank i = 0; i < count; ++i) found.push_back({n, i, strides[static_cast<size_t>(i) % strides.size()]});
  return found;
}

template <Rank k>
void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rank n = shape.ranks, last = n - 1;
  const uint32_t chunks = plan.partition(k * n);
  const View in = plan.input(chunks), out = plan.output(chunks);
  const View partial = plan.scratch(n > 2 ? 1 : 0, chunks);

  for (const Ring& ring : rings(n, k)) {
    const Rank next = ring.after(me), prev = ring.before(me);
    const auto at = [&](Rank hop) { return ring.number * n + ring.back(me, hop); };  // where chunks are, hop by hop
    auto lane = plan.lane();
    lane.lend(in[at(0)], next);
    for (Rank hop = 1; hop < last; ++hop) {  // reduce-scatter: fold in, pass on
      lane.reduce(partial[at(hop)], {lane.from(prev), in[at(hop)]});
      lane.lend(partial[at(hop)], next);
    }
    lane.complete(out[at(last)], {lane.from(prev), in[at(last)]});  // it has been everywhere but here
    lane.lend(out[at(last)], next);
    for (Rank hop = 0; hop < last; ++hop) {  // all-gather: keep, pass on, until it is back where it came from
      lane.recv(out[at(hop)], prev);
      if (hop < last - 1) lane.lend(out[at(hop)], next);
    }
  }
}

template <Rank k>
void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t parts = plan.partition(k);
  const View in = plan.input(parts), out = plan.output(parts);

  for (const Ring& ring : rings(shape.ranks, k)) {
    const Rank next = ring.after(me), prev = ring.before(me);
    const auto part = [&](Rank block) { return out.chunks(block, ring.number, ring.number + 1); };
    auto lane = plan.lane();
    lane.lend(in[ring.number], next);  // before the copy, for which the peer need not wait
    lane.copy(part(me), in[ring.number]);
    for (Rank hop = 1; hop < shape.ranks; ++hop) {
      const Rank b = ring.back(me, hop);
      lane.recv(part(b), prev);
      if (hop < shape.ranks - 1) lane.lend(part(b), next);
    }
  }
}

template <Rank k>
void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const uint32_t parts = plan.partition(k);
  const View in = plan.input(parts), out = plan.output(parts);
  const View partial = plan.scratch(shape.ranks > 2 ? 1 : 0, parts);  // for all hops: a fold goes into the next message

  for (const Ring& ring : rings(shape.ranks, k)) {
    const Rank next = ring.after(me), prev = ring.before(me), i = ring.number;
    auto lane = plan.lane();
    lane.lend(in.chunks(prev, i, i + 1), next);
    for (Rank hop = 2; hop < shape.ranks; ++hop) {
      lane.reduce(partial[i], {lane.from(prev), in.chunks(ring.back(me, hop), i, i + 1)});
      lane.send(partial[i], next);
    }
    lane.complete(out[i], {lane.from(prev), in.chunks(me, i, i + 1)});
  }
}

template <Rank k>
Cost twice_round(Rank n) {
  if (n == 1) return {};
  const Ratio all = Ratio(2 * (n - 1), n);
  return {.rounds = 2 * (n - 1),
          .sent = all,
          .received = all,
          .folded = Ratio(n - 1, n),
          .stages = k,
          .message = Ratio(1, int64_t{k} * n),
          .link = Ratio(2 * (n - 1), int64_t{k} * n)};
}

template <Rank k, bool folds>
Cost once_round(Rank n) {
  if (n == 1) return {};
  return {.rounds = n - 1,
          .sent = n - 1,
          .received = n - 1,
          .folded = folds ? n - 1 : 0,
          .stages = k,
          .message = Ratio(1, k),
          .link = Ratio(n - 1, k)};
}

/// The three collectives over k rings.
template <Rank k>
struct Rings {
  Rings(const char* name, const char* reduces, const char* gathers, const char* scatters)
      : all_reduces({Collective::AllReduce, name, reduces, any_number, all_reduce<k>, twice_round<k>, true}),
        all_gathers({Collective::AllGather, name, gathers, any_number, all_gather<k>, once_round<k, false>}),
        reduce_scatters(
            {Collective::ReduceScatter, name, scatters, any_number, reduce_scatter<k>, once_round<k, true>}) {}
  Registration all_reduces, all_gathers, reduce_scatters;
};

const Rings<1> kOne("ring", "chunks travel twice round a circle of ranks; least bytes, latency grows with n",
                    "blocks travel once round a circle of ranks; two neighbours, n−1 rounds",
                    "blocks travel once round a circle, each rank folding in its share; least bytes");
const Rings<2> kTwo("bidirectional_ring", "a ring in either direction, each with half of the data",
                    "a ring in either direction, each with half of every block",
                    "a ring in either direction, each folding half of every block");
const Rings<4> kFour("four_rings", "four rings of different strides, each with a quarter of the data",
                     "four rings of different strides, each with a quarter of every block",
                     "four rings of different strides, each folding a quarter of every block");

}  // namespace
}  // namespace tutti::algorithms
