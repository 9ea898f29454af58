// Hierarchical, with blocks: all-gather, reduce-scatter. (Without: hierarchical.cpp. Carriers and rails: rails.hpp.)
//
// Ranks stand in groups, G of them, of any sizes; g is that of the smallest, h that of the largest. Every block has a
// rail: that of its rank or, where its rank is an extra, of every g-th member, so that a rail has at most b = ⌈h/g⌉
// blocks of a group, and B = Σ ⌈size/g⌉ in all; in even groups b = 1, B = G, and there are no extras.
//
// All-gather: inside a group, every rank sends its block to all others; between groups, a rail's blocks go round a
// ring, a group's at a time; inside, a carrier sends all others what each hop has brought. Reduce-scatter: inside,
// every rank sends each carrier the blocks of its rail, group by group, and the carrier folds them in one pass;
// between, they go round a ring, and every carrier folds in its group's; inside, extras get theirs. The three are lanes
// of their own, so that one window is between groups while others are inside.
//
//                    rounds   sent        received    folded      of what is sent, between groups
//   all-gather       G        (n − 1)·S   (n − 1)·S               (G − 1)·S
//   reduce-scatter   G        (n − 1)·S   (n − 1)·S   (n − 1)·S   (G − 1)·S
// for even groups, G > 1 and g > 1, with S the bytes of a block; T = α + (G−1)·α' + (g−1)·G·S·β + (G−1)·S·β' + folded·γ
// with α', β' for links between groups. Extras add a round; and a carrier of h members then sends (h−1)·(B−b+1) + B−b
// blocks, or receives and folds (h−1)·B + B−b, where the groups next to it are as large. One link carries B − 1 blocks
// of an all-gather, B of a reduce-scatter.
//
// Between groups a block is sent once to each group, not once to each rank: it wins where links between groups are
// slower than those inside. A partial sum is rounded once inside, if the group has more than one member, and G−1 times
// between. With two groups of neighbours that are halves of the canonical tree, it is canonical.
// Source: Träff, Efficient allgather for regular SMP-clusters, EuroPVM/MPI 2006; Cho, Finkler, Kung & Hunter,
// BlueConnect, MLSys 2019 (both for even groups).

#include "algorithms/rails.hpp"

namespace tutti::algorithms {
namespace {

Pieces blocks_of(const View& view, const std::vector<Rank>& ranks) {
  Pieces pieces;
  for (const Rank r : ranks) pieces += view.block(r);
  return pieces;
}

void all_gather(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rails rails(shape, me);
  const std::vector<Rank> others = rails.others();
  const View in = plan.input(), out = plan.output();
  auto inside = plan.lane(), between = plan.lane(), around = plan.lane();

  if (!others.empty()) inside.lend(in.all(), others);
  inside.copy(out.block(me), in.all());
  Pieces held = in.all();  // what my rail has of the group that is `hop` before mine
  StepRef arrived;
  for (const Rank other : others) {
    const StepRef step = inside.recv(out.block(other), other);
    const bool served = rails.is_carrier() && rails.groups.place_of(other) % rails.count == rails.place;
    if (served) arrived = step;
  }
  if (arrived.lane != kNone) {
    held = blocks_of(out, rails.served(rails.group, rails.place));
    between.after(arrived);
  }
  for (Rank hop = 1; hop < rails.circle.n; ++hop) {
    const Rank from = rails.circle.back(rails.group, hop);
    if (rails.is_carrier()) {
      between.lend(held, rails.next());
      held = blocks_of(out, rails.served(from, rails.place));
      arrived = between.recv(held, rails.prev());
      if (!others.empty()) around.after(arrived).lend(held, others);
    }
    for (const Rank rail : rails.other_rails()) {
      around.recv(blocks_of(out, rails.served(from, rail)), rails.carrier(rail));
    }
  }
}

/// Between groups: my rail's blocks of each group start at the group after it, and every group folds in its own share,
/// which is in shares[hop − 1] when ready[hop − 1] is done, `hop` counting back from mine.
StepRef reduce_between(const Rails& rails, LaneBuilder between, const std::vector<StepRef>& ready,
                       const std::vector<Pieces>& shares, const View& passing, const Pieces& results) {
  const Rank next = rails.next(), prev = rails.prev(), last = rails.circle.n;
  const auto wait = [&](Rank hop) {
    const StepRef step = ready[static_cast<size_t>(hop - 1)];
    if (step.lane != kNone) between.after(step);
  };
  const auto share = [&](Rank hop) -> const Pieces& { return shares[static_cast<size_t>(hop - 1)]; };

  wait(1);
  if (rails.size == 1) {
    between.lend(share(1), next);  // the input
  } else {
    between.send(share(1), next);
  }
  for (Rank hop = 2; hop < last; ++hop) {
    const Rank of_group = rails.circle.back(rails.group, hop);
    const Pieces partial = run(passing, 0, static_cast<Rank>(rails.served(of_group, rails.place).size()));
    wait(hop);
    between.reduce(partial, {between.from(prev), share(hop)});
    between.send(partial, next);
  }
  wait(last);
  return between.complete(results, rails.in_group_order_with_prev(share(last)));
}

void reduce_scatter(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rails rails(shape, me);
  const std::vector<Rank> mine = rails.served(rails.group, rails.place);  // me, then extras
  const View in = plan.input(), out = plan.output();
  auto inside = plan.lane(), between = plan.lane(), outward = plan.lane();
  Pieces results = out.all();
  std::vector<Pieces> shares;
  std::vector<StepRef> ready;
  for (Rank hop = 1; hop <= rails.circle.n; ++hop) {  // my own group is the last
    const Rank of_group = rails.circle.back(rails.group, hop);
    for (const Rank rail : rails.other_rails()) {
      inside.lend(blocks_of(in, rails.served(of_group, rail)), rails.carrier(rail));
    }
    if (!rails.is_carrier()) continue;
    const std::vector<Rank> served = rails.served(of_group, rails.place);
    const auto blocks = static_cast<Rank>(served.size());
    const std::vector<Source> operands = rails.in_group_order(blocks_of(in, served));
    if (!rails.has_other_groups()) {
      inside.complete(results, operands, FoldShape::Tree);
    } else if (rails.size == 1) {
      shares.push_back(blocks_of(in, served));
      ready.emplace_back();
    } else {
      const View share = plan.scratch(blocks);
      shares.push_back(run(share, 0, blocks));
      ready.push_back(inside.reduce(shares.back(), operands, FoldShape::Tree));
      if (hop == rails.circle.n) results += run(share, 1, blocks);  // extras' results take their shares' place
    }
  }
  if (!rails.is_carrier()) {
    outward.recv(out.all(), rails.carrier(rails.place % rails.count));
    return;
  }
  if (!rails.has_other_groups()) return;
  const View passing = plan.scratch(rails.circle.n > 2 ? max_served(rails.groups) : 0);
  const StepRef done = reduce_between(rails, between, ready, shares, passing, results);
  if (mine.size() > 1) outward.after(done);
  for (size_t extra = 1; extra < mine.size(); ++extra) outward.send(results.list()[extra], mine[extra]);
}

/// Rounds of both. Rail 0 has extras wherever there are any.
int64_t rounds(const Grouping& groups) {
  const int64_t count = groups.groups();
  if (count == 1) return 1;
  const auto inside = [&](Rank group) { return groups.size(group) > 1 ? 1 : 0; };
  if (groups.smallest() > 1) return count + (groups.largest() > groups.smallest() ? 1 : 0);
  // What has been round the ring ends one group before the one where it began.
  return count - 1 + most(groups, [&](Rank end) { return inside(end) + inside((end + 1) % groups.groups()); });
}

Cost all_gather_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  const Grouping& groups = *shape.groups;
  const Rank count = groups.groups(), all = all_served(groups);
  const auto sent = [&](Rank group) {
    const Rank others = groups.size(group) - 1, after = (group + 1) % count;
    return others + (all - served(groups, after)) + others * (all - served(groups, group));
  };
  return {.rounds = rounds(groups),
          .sent = count > 1 ? most(groups, sent) : shape.ranks - 1,
          .received = shape.ranks - 1,
          .stages = groups.largest() > 1 && count > 1 ? 3 : 1,
          .message = count > 1 ? max_served(groups) : 1,
          .link = count > 1 ? all - 1 : 1,
          .between = between_groups(groups, count - 1, max_served(groups), all - 1)};
}

Cost reduce_scatter_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  const Grouping& groups = *shape.groups;
  const Rank count = groups.groups(), g = groups.smallest(), all = all_served(groups), b = max_served(groups);
  const Rank received = most(groups, [&](Rank group) {
    const Rank before = (group + count - 1) % count;
    return (groups.size(group) - 1) * all + (count > 1 ? all - served(groups, before) : 0);
  });
  return {.rounds = rounds(groups),
          .sent = b > 1 ? shape.ranks : shape.ranks - 1,
          .received = received,
          .folded = received,
          .stages = g - 1 + (count > 1 ? 1 : 0) + b - 1,
          .message = b,
          .link = groups.largest() > 1 ? all : all - 1,
          .between = between_groups(groups, count - 1, b, all - 1)};
}

const Registration kAllGather({.collective = Collective::AllGather,
                               .name = "hierarchical",
                               .summary = "inside groups, a ring between, and what it brings inside; needs groups",
                               .allows = grouped,
                               .generate = all_gather,
                               .cost = all_gather_cost});
const Registration kReduceScatter({.collective = Collective::ReduceScatter,
                                   .name = "hierarchical",
                                   .summary = "fold inside groups, a ring between, extras get theirs; needs groups",
                                   .allows = grouped,
                                   .generate = reduce_scatter,
                                   .cost = reduce_scatter_cost});

}  // namespace
}  // namespace tutti::algorithms
