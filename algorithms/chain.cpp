// Chain: all-reduce, broadcast, reduce.
//
// The n ranks stand in a row, rank 0 first. Down, or broadcast: every rank hears from the one before it and tells the
// one after. Up, or reduce: every rank folds its share into what it hears from the one after it and tells the one
// before. All-reduce: up, then down, in two lanes that are linked only where rank 0 turns. Nothing is cut; what makes
// it fast is that the rounds overlap: while one window is at rank r, the next one is at rank r−1. S is the call's count
// in bytes, w that of a window.
//
//                rounds   sent   folded   T
//   broadcast    n−1      S               (n−1)·(α + w·β) + S·β
//   reduce       n−1      S      S        (n−1)·(α + w·(β + γ)) + S·(β + γ)
//   all-reduce   2(n−1)   2S     S        2(n−1)·(α + w·β) + 2S·β + S·γ
//
// Every byte passes each rank once, so a broadcast or reduce of large S takes little more than one message of S
// between two ranks, however many there are. It wins for large S; the all-reduce only where the ranks really stand in a
// row, for a ring sends less. A partial sum is rounded n−1 times, at every hop, the last giving the result; the order
// is 0 + (1 + (2 + …)), not the canonical one.
// Source: Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel & Dongarra, Performance analysis of MPI collective
// operations, Cluster Computing 2007 (there: pipeline).

#include "algorithms/common.hpp"

namespace tutti::algorithms {
namespace {

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View out = plan.output();
  auto down = plan.lane();

  if (me == 0) {
    down.lend(plan.input().all(), 1);
    down.copy(out.all(), plan.input().all());
    return;
  }
  down.recv(out.all(), me - 1);
  if (me + 1 < shape.ranks) down.lend(out.all(), me + 1);
}

void reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const View in = plan.input();
  auto up = plan.lane();

  if (me == shape.ranks - 1) {
    up.lend(in.all(), me - 1);
  } else if (me > 0) {
    const View partial = plan.scratch(1);
    up.reduce(partial.all(), {in.all(), up.from(me + 1)});
    up.send(partial.all(), me - 1);
  } else {
    up.complete(plan.output().all(), {in.all(), up.from(1)});
  }
}

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rank last = shape.ranks - 1;
  const View in = plan.input(), out = plan.output();
  auto up = plan.lane(), down = plan.lane();

  if (me == 0) {
    const StepRef turn = up.complete(out.all(), {in.all(), up.from(1)});
    down.after(turn).lend(out.all(), 1);
    return;
  }
  if (me == last) {
    up.lend(in.all(), me - 1);
  } else {
    const View partial = plan.scratch(1);
    up.reduce(partial.all(), {in.all(), up.from(me + 1)});
    up.lend(partial.all(), me - 1);
  }
  down.recv(out.all(), me - 1);
  if (me < last) down.lend(out.all(), me + 1);
}

template <bool folds>
Cost one_way(Rank n) {
  if (n == 1) return {};
  return {.rounds = n - 1,
          .sent = 1,
          .received = 1,
          .folded = folds ? 1 : 0,
          .stages = 1,
          .message = 1,
          .handled = n == 2 ? 1 : 2};
}

Cost both_ways(Rank n) {
  if (n == 1) return {};
  const int ways = n == 2 ? 1 : 2;  // of two ranks, each sends one way only
  return {.rounds = 2 * (n - 1), .sent = ways, .received = ways, .folded = 1, .stages = ways, .message = 1};
}

const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "chain",
                               .summary = "down a chain of ranks, window after window; least bytes",
                               .allows = any_number,
                               .generate = broadcast,
                               .cost = one_way<false>});
const Registration kReduce({.collective = Collective::Reduce,
                            .name = "chain",
                            .summary = "up a chain of ranks, each folding in its share; least bytes",
                            .allows = any_number,
                            .generate = reduce,
                            .cost = one_way<true>});
const Registration kAllReduce({.collective = Collective::AllReduce,
                               .name = "chain",
                               .summary = "up a chain of ranks, folding, and down again, window after window",
                               .allows = any_number,
                               .generate = all_reduce,
                               .cost = both_ways});

}  // namespace
}  // namespace tutti::algorithms
