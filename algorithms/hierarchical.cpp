// Hierarchical: all-reduce, broadcast. (With blocks: hierarchical_blocks.cpp, hierarchical_all_to_all.cpp.)
//
// Ranks stand in groups (hosts, say), G of them, of any sizes; g is that of the smallest, h that of the largest. The
// buffer is cut into g *rails*, and each rail into G chunks where it goes round. (Carriers and rails: see rails.hpp.)
//
// All-reduce: inside a group, every member sends carrier c rail c of its share, and the carrier folds them in one pass;
// between groups, the carriers of a rail all-reduce it round a ring; inside, each sends its rail to all members.
// Broadcast: inside the root's group, the root sends carrier c rail c; between, rails go down a chain of groups, the
// root's first; inside, each carrier sends its rail to all members.
// In, between, and out are lanes of their own, so that one window is between groups while others are inside.
//
//                rounds   sent                                   of these, between groups   received
//   all-reduce   2G       (g + h − 2)/g · S + 2(G−1)/(G·g) · S   2(G−1)/(G·g) · S           as sent
//   broadcast    G + 1    max(g + r − 1, h)/g · S                S/g                        S
// for G > 1 and g > 1, with r members in the root's group; in general see below. All-reduce folds (h−1)/g · S +
// (G−1)/(G·g) · S. Over one link go 2(G−1)/(G·g) · S, or S/g where that is more. With α', β' for links between groups,
// T = 2α + rounds between · α' + what is sent or received, the more, inside · β and between · β' + folded · γ.
//
// One rank of g takes part in the traffic between groups for each 1/g of the buffer: it wins for large S where links
// between groups are slower than those inside, or where each member has its own way out; where groups are uneven, the
// larger ones do more inside, and no more between. A partial sum is rounded once inside, if the group has more than one
// member, and G−1 times between. With two groups of neighbours that are halves of the canonical tree, it is canonical.
// Source: Cho, Finkler, Kung & Hunter, BlueConnect: decomposing all-reduce for deep learning on heterogeneous
// network hierarchy, MLSys 2019 (for even groups).

#include "algorithms/rails.hpp"

namespace tutti::algorithms {
namespace {

/// Chunks of a rail, one for each group.
class RailChunks {
 public:
  RailChunks(Rank rail, Rank groups) : first_(rail * groups), groups_(groups) {}
  Piece all(const View& view) const { return view.chunks(0, first_, first_ + groups_); }
  Piece of(const View& view, Rank group) const { return view[first_ + group]; }

 private:
  Rank first_, groups_;
};

/// The ring of all-reduce (see ring.cpp) over my rail, whose sum inside my group is in `sum` when `ready` is done.
StepRef all_reduce_between(const Rails& rails, LaneBuilder between, StepRef ready, const View& sum, const View& partial,
                           const View& out) {
  const Rank next = rails.next(), prev = rails.prev(), last = rails.circle.n - 1;
  const RailChunks mine(rails.place, rails.circle.n);
  const auto at = [&](const View& view, Rank hop) { return mine.of(view, rails.circle.back(rails.group, hop)); };
  if (ready.lane != kNone) between.after(ready);

  between.lend(at(sum, 0), next);
  for (Rank hop = 1; hop < last; ++hop) {
    between.reduce(at(partial, hop), {between.from(prev), at(sum, hop)});
    between.lend(at(partial, hop), next);
  }
  between.complete(at(out, last), rails.in_group_order_with_prev(at(sum, last)));
  between.lend(at(out, last), next);
  StepRef done;
  for (Rank hop = 0; hop < last; ++hop) {
    done = between.recv(at(out, hop), prev);
    if (hop < last - 1) between.lend(at(out, hop), next);
  }
  return done;
}

void all_reduce(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rails rails(shape, me);
  const uint32_t chunks = plan.partition(rails.count * rails.circle.n);
  const View in = plan.input(chunks), out = plan.output(chunks);
  auto inward = plan.lane(), between = plan.lane(), outward = plan.lane();
  const auto all_of = [&](const View& view, Rank rail) { return RailChunks(rail, rails.circle.n).all(view); };

  for (const Rank rail : rails.other_rails()) inward.lend(all_of(in, rail), rails.carrier(rail));
  if (rails.is_carrier()) {
    const bool folds = rails.size > 1, passes_on = rails.circle.n > 2;
    const View partial = plan.scratch(rails.has_other_groups() && (folds || passes_on) ? 1 : 0, chunks);
    StepRef done;
    if (folds) {
      const std::vector<Source> shares = rails.in_group_order(all_of(in, rails.place));
      done = rails.has_other_groups() ? inward.reduce(all_of(partial, rails.place), shares, FoldShape::Tree)
                                      : inward.complete(all_of(out, rails.place), shares, FoldShape::Tree);
    }
    if (rails.has_other_groups()) {
      done = all_reduce_between(rails, between, done, folds ? partial : in, partial, out);
    }
    if (rails.size > 1) outward.after(done).lend(all_of(out, rails.place), rails.others());
  }
  for (const Rank rail : rails.other_rails()) outward.recv(all_of(out, rail), rails.carrier(rail));
}

void broadcast(const Shape& shape, Rank me, PlanBuilder& plan) {
  if (is_alone(shape, plan)) return;
  const Rails rails(shape, me);
  const uint32_t chunks = plan.partition(rails.count);
  const View in = plan.input(chunks), out = plan.output(chunks);
  auto inward = plan.lane(), between = plan.lane(), outward = plan.lane();
  const bool last_group = rails.group == rails.circle.n - 1;
  std::vector<Rank> others = rails.others();
  std::erase(others, 0);  // the root has it all

  if (me == 0) {
    for (const Rank rail : rails.other_rails()) inward.lend(in[rail], rails.carrier(rail));
    if (!last_group) between.lend(in[0], rails.next());
    if (!others.empty()) outward.lend(in[0], others);
    outward.copy(out.all(), in.all());
    return;
  }
  if (rails.is_carrier()) {
    const Rank rail = rails.place;
    StepRef arrived;
    if (rails.group == 0) {
      arrived = inward.recv(out[rail], 0);
      if (!last_group) between.after(arrived).lend(out[rail], rails.next());
    } else {
      arrived = between.recv(out[rail], rails.prev());
      if (!last_group) between.lend(out[rail], rails.next());
    }
    if (!others.empty()) outward.after(arrived).lend(out[rail], others);
  }
  for (const Rank rail : rails.other_rails()) outward.recv(out[rail], rails.carrier(rail));
}

Cost all_reduce_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  const Grouping& groups = *shape.groups;
  const int64_t g = groups.smallest(), h = groups.largest(), count = groups.groups();
  const auto inside = [&](Rank group) { return groups.size(group) > 1 ? 1 : 0; };
  // What has been round the ring ends two groups on from where it began.
  const int64_t detours = most(groups, [&](Rank end) { return inside(end) + inside((end + 2) % groups.groups()); });
  const Ratio moved = Ratio(g + h - 2, g) + Ratio(2 * (count - 1), count * g);
  return {.rounds = 2 * (count - 1) + detours,
          .sent = moved,
          .received = moved,
          .folded = Ratio(h - 1, g) + Ratio(count - 1, count * g),
          .stages = g - 1 + (count > 1 ? 1 : 0) + (h > 1 ? 1 : 0),
          .message = h > 1 ? Ratio(1, g) : Ratio(1, count),
          .link = h > 1 && count <= 2 ? Ratio(1, g) : Ratio(2 * (count - 1), count * g),
          .between = between_groups(groups, 2 * (count - 1), Ratio(1, count * g), Ratio(2 * (count - 1), count * g))};
}

Cost broadcast_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  const Grouping& groups = *shape.groups;
  const int64_t g = groups.smallest(), root = groups.size(0) - 1, last = groups.groups() - 1;
  // The root tells its group's other carriers; every carrier tells its next, and its others (the root needs no
  // telling).
  const auto passes = [&](Rank group) { return group < last ? 1 : 0; };
  const auto tells = [&](Rank group) { return groups.size(group) - 1; };
  const int64_t by_chain = most(groups, [&](Rank group) { return group + (tells(group) > 0 ? 1 : 0); });
  const int64_t alone = root > 1 ? 2 : 1;  // rounds if there is one group
  return {.rounds = last == 0 ? alone : (g > 1 ? last + 2 : by_chain),
          .sent = Ratio(std::max<int64_t>(g - 1 + passes(0) + root,
                                          most(groups, [&](Rank group) { return passes(group) + tells(group); })),
                        g),
          .received = 1,
          .stages = std::max<int64_t>(
              g - 1 + passes(0) + (root > 0 ? 1 : 0),
              most(groups, [&](Rank group) { return group == 0 ? 0 : passes(group) + (tells(group) > 0 ? 1 : 0); })),
          .message = Ratio(1, g),
          .between = between_groups(groups, last, Ratio(1, g), Ratio(1, g))};
}

const Registration kAllReduce(
    {.collective = Collective::AllReduce,
     .name = "hierarchical",
     .summary = "reduce-scatter inside groups, a ring between, all-gather inside; needs groups",
     .allows = grouped,
     .generate = all_reduce,
     .cost = all_reduce_cost});
const Registration kBroadcast({.collective = Collective::Broadcast,
                               .name = "hierarchical",
                               .summary = "a share to each of a group, chains between, all-gather inside; needs groups",
                               .allows = grouped,
                               .generate = broadcast,
                               .cost = broadcast_cost});

}  // namespace
}  // namespace tutti::algorithms
