// Hierarchical: all-to-all. (Carriers and rails: rails.hpp.)
//
// Ranks stand in groups, G of them, of any sizes; g is that of the smallest, h that of the largest. A block for another
// group travels on the rail of the rank that it is for: that rank's own or, where it is an extra, that of every g-th
// member, so that a rail serves at most b = ⌈h/g⌉ ranks of a group.
//
// Inside a group, every rank sends each other one its block for it and, if that is a carrier, all blocks for other
// groups that travel on its rail. Between groups, in step k = 1 … G−1, a carrier sends the k-th group after its own, to
// the carrier of the same rail, all its group's blocks for the ranks served there. Inside, carriers hand extras theirs.
// The three are lanes of their own, so that one window is between groups while others are inside.
//
//   rounds h + G − 2 [+1]   sent = received (n−1)·S + (h−1)·(G−1)·S, of these (G−1)·h·S between groups
// with S the bytes of one block, for even groups ([+1]: with extras; in general see below). Over one link goes one
// message; to an extra of a group of s members, n − s blocks.
//   T = (h−1)·α + (G−1)·α' + (h−1)·G·S·β + (G−1)·h·S·β'
//
// The same bytes between groups as pairwise sends, in messages h times as large and h times as few, for nearly twice
// the bytes in all: it wins for small and middle blocks where links between groups are slower than those inside.
// Source: NVIDIA, Doubling all2all performance with NVIDIA Collective Communication Library 2.12, 2022 (the rails);
// Träff & Rougier, MPI collectives and datatypes for hierarchical all-to-all communication, EuroMPI 2014.

#include "algorithms/rails.hpp"

namespace tutti::algorithms {
namespace {

/// What waits at a carrier: blocks by the rank they are from, and then the rank they are for; mine are elsewhere.
class Waiting {
 public:
  Waiting(PlanBuilder& plan, Rank sources, Rank targets) : targets_(targets), view_(plan.scratch(sources * targets)) {}
  Piece block(Rank source, Rank target) const { return view_.block(source * targets_ + target); }

 private:
  Rank targets_;
  View view_;
};

class Writer {
 public:
  Writer(const Shape& shape, Rank me, PlanBuilder& plan)
      : plan_(plan), me_(me), rails_(shape, me), in_(plan.input()), out_(plan.output()) {
    for (Rank hop = 1; rails_.is_carrier() && hop < rails_.circle.n; ++hop) {
      const auto targets = rails_.served(rails_.circle.forward(rails_.group, hop), rails_.place).size();
      leaving_.emplace_back(plan, rails_.size - 1, static_cast<Rank>(targets));
    }
  }

  void write() {
    auto inside = plan_.lane(), between = plan_.lane(), outward = plan_.lane();
    const StepRef collected = collect(inside);
    if (rails_.is_carrier()) return exchange(between, outward, collected);
    const Rank carrier = rails_.carrier(rails_.place % rails_.count);
    for (Rank hop = 1; hop < rails_.circle.n; ++hop) {
      Pieces from_group;
      for (const Rank source : rails_.groups.members(rails_.circle.back(rails_.group, hop))) {
        from_group += out_.block(source);
      }
      outward.recv(from_group, carrier);
    }
  }

 private:
  StepRef collect(LaneBuilder inside) const {
    StepRef collected;
    const Circle circle{rails_.size};
    for (Rank k = 1; k < rails_.size; ++k) {
      const Rank to = circle.forward(rails_.place, k), from = circle.back(rails_.place, k);
      Pieces sent = in_.block(rails_.groups.member(rails_.group, to));
      Pieces received = out_.block(rails_.groups.member(rails_.group, from));
      for (Rank hop = 1; hop < rails_.circle.n; ++hop) {
        const Rank group = rails_.circle.forward(rails_.group, hop);
        for (const Rank target : to < rails_.count ? rails_.served(group, to) : std::vector<Rank>()) {
          sent += in_.block(target);
        }
        if (!rails_.is_carrier()) continue;
        const auto targets = static_cast<Rank>(rails_.served(group, rails_.place).size());
        for (Rank target = 0; target < targets; ++target) received += left(hop).block(slot(from), target);
      }
      inside.lend(sent, rails_.groups.member(rails_.group, to));
      collected = inside.recv(received, rails_.groups.member(rails_.group, from));
    }
    inside.copy(out_.block(me_), in_.block(me_));
    return collected;
  }

  void exchange(LaneBuilder between, LaneBuilder outward, StepRef collected) const {
    const std::vector<Rank> served = rails_.served(rails_.group, rails_.place);  // me, then extras
    const auto extras = static_cast<Rank>(served.size() - 1);
    if (collected.lane != kNone && rails_.has_other_groups()) between.after(collected);
    for (Rank hop = 1; hop < rails_.circle.n; ++hop) {
      const Rank to = rails_.circle.forward(rails_.group, hop), from = rails_.circle.back(rails_.group, hop);
      const std::vector<Rank> targets = rails_.served(to, rails_.place);
      Pieces sent, received;
      for (Rank source = 0; source < rails_.size; ++source) {
        for (Rank t = 0; t < static_cast<Rank>(targets.size()); ++t) {
          sent +=
              source == rails_.place ? in_.block(targets[static_cast<size_t>(t)]) : left(hop).block(slot(source), t);
        }
      }
      const Waiting arriving(plan_, rails_.groups.size(from), extras);
      for (Rank source = 0; source < rails_.groups.size(from); ++source) {
        received += out_.block(rails_.groups.member(from, source));
        for (Rank t = 0; t < extras; ++t) received += arriving.block(source, t);
      }
      if (rails_.size == 1) {
        between.lend(sent, rails_.peer(to));  // the input
      } else {
        between.send(sent, rails_.peer(to));
      }
      const StepRef arrived = between.recv(received, rails_.peer(from));
      for (Rank t = 0; t < extras; ++t) {
        Pieces theirs;
        for (Rank source = 0; source < rails_.groups.size(from); ++source) theirs += arriving.block(source, t);
        if (t == 0) outward.after(arrived);
        outward.send(theirs, served[static_cast<size_t>(t) + 1]);
      }
    }
  }

  /// Where blocks of my group wait for the group `hop` after it, by slot of the rank they are from.
  const Waiting& left(Rank hop) const { return leaving_[static_cast<size_t>(hop - 1)]; }
  Rank slot(Rank source) const { return source < rails_.place ? source : source - 1; }

  PlanBuilder& plan_;
  Rank me_;
  Rails rails_;
  View in_, out_;
  std::vector<Waiting> leaving_;
};

void generate(const Shape& shape, Rank me, PlanBuilder& plan) { Writer(shape, me, plan).write(); }

/// h − 1 inside, G − 1 between, and one for extras. Only one way leads through G − 1 carriers: to the group that is the
/// sum of all steps ahead, which is the own one (G odd) or that opposite (G even).
int64_t rounds(const Grouping& groups) {
  const Rank count = groups.groups(), opposite = count % 2 == 0 ? count / 2 : 0;
  if (count == 1) return groups.largest() - 1;
  const Rank extra = most(groups, [&](Rank group) {
    const bool longest = groups.size((group + opposite) % count) == groups.largest();
    return groups.size(group) > groups.smallest() && longest ? 1 : 0;
  });
  return groups.largest() - 1 + count - 1 + extra;
}

Cost cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  const Grouping& groups = *shape.groups;
  const int64_t n = shape.ranks, count = groups.groups(), all = all_served(groups);
  int64_t largest = 0, second = 0;  // sizes of two groups
  for (Rank group = 0; group < groups.groups(); ++group) {
    const int64_t size = groups.size(group);
    second = std::max(second, std::min(largest, size));
    largest = std::max(largest, size);
  }
  const auto rail = [&](int64_t size) { return (size + groups.smallest() - 1) / groups.smallest(); };
  const auto moved = [&](Rank group) {
    const int64_t size = groups.size(group), here = served(groups, group);
    return n - 1 + (size - 1) * (all - here) + (n - size) * (here - 1);
  };
  const auto exchanged = [&](Rank group) {
    const int64_t size = groups.size(group), here = served(groups, group);
    return std::max(size * (all - here), (n - size) * here);
  };
  const auto collected = [&](Rank group) {
    return groups.size(group) > 1 ? 1 + all - served(groups, group) : int64_t{0};
  };
  const auto handed_on = [&](Rank group) {  // to one extra
    return served(groups, group) > 1 ? n - groups.size(group) : int64_t{0};
  };
  const int64_t passed = std::max(largest * rail(second), second * rail(largest));  // to another group at once
  const int64_t message = std::max(most(groups, collected), passed);
  return {
      .rounds = rounds(groups),
      .sent = most(groups, moved),
      .received = most(groups, moved),
      .stages = largest - 1 + count - 1 + (count > 1 ? rail(largest) - 1 : 0),
      .message = message,
      .link = std::max(message, most(groups, handed_on)),
      .between = Cost::Between{
          .rounds = count - 1, .moved = most(groups, exchanged), .chain = (count - 1) * passed, .stages = count - 1}};
}

const Registration kHierarchical({.collective = Collective::AllToAll,
                                  .name = "hierarchical",
                                  .summary = "collect inside groups, exchange between in large messages; needs groups",
                                  .allows = grouped,
                                  .generate = generate,
                                  .cost = cost});

}  // namespace
}  // namespace tutti::algorithms
