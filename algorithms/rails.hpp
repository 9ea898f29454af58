// What the two-level algorithms share: groups of ranks that are near each other, and rails between them.
//
// The first g members of every group, g being the members of the smallest group, are its *carriers*: only they talk to
// other groups, and a carrier only to those at the same *place* in theirs, which together are a *rail*. So there are g
// rails, and every group has a part in each. The other members of larger groups are *extras*: what they have goes
// through carriers. More rails would not help, as the smallest group's g members must take in all there is anyway.
#pragma once

#include "algorithms/common.hpp"

namespace tutti::algorithms {

/// A rank among groups and rails. The shape must be grouped, and outlive this.
struct Rails {
  Rails(const Shape& shape, Rank me)
      : groups(*shape.groups),
        count(groups.smallest()),
        group(groups.group_of(me)),
        place(groups.place_of(me)),
        size(groups.size(group)),
        circle{groups.groups()} {}

  const Grouping& groups;
  Rank count;     // of rails
  Rank group;     // my group,
  Rank place;     // my place in it,
  Rank size;      // its members
  Circle circle;  // of groups

  bool is_carrier() const { return place < count; }
  bool has_other_groups() const { return circle.n > 1; }
  /// The member of my group that is on rail `rail`.
  Rank carrier(Rank rail) const { return groups.member(group, rail); }
  /// The rank on my rail in another group.
  Rank peer(Rank other_group) const { return groups.member(other_group, place); }
  Rank next() const { return peer(circle.after(group)); }
  Rank prev() const { return peer(circle.before(group)); }
  /// All members of my group but me, from the one after me.
  std::vector<Rank> others() const {
    std::vector<Rank> members;
    for (const Rank at : Circle{size}.others(place)) members.push_back(groups.member(group, at));
    return members;
  }
  /// All rails but mine, from the one after it.
  std::vector<Rank> other_rails() const {
    std::vector<Rank> rails;
    for (Rank hops = 1; hops <= count; ++hops) {
      const Rank rail = (place + hops) % count;
      if (rail != place) rails.push_back(rail);
    }
    return rails;
  }
  /// The members of a group that a rail serves: a carrier, and extras; every rail-count-th.
  std::vector<Rank> served(Rank of_group, Rank rail) const {
    std::vector<Rank> ranks;
    for (Rank at = rail; at < groups.size(of_group); at += count) ranks.push_back(groups.member(of_group, at));
    return ranks;
  }
  /// The operands of a fold over my group, in rank order: `mine` in my place, the others' next messages in theirs.
  std::vector<Source> in_group_order(const Source& mine) const {
    std::vector<Source> operands;
    for (Rank at = 0; at < size; ++at) {
      operands.push_back(at == place ? mine : LaneBuilder::from(groups.member(group, at)));
    }
    return operands;
  }
  /// The operands of the last fold on a rail: of two groups, in their order.
  std::vector<Source> in_group_order_with_prev(const Source& mine) const {
    return in_leaf_order(group, mine, circle.before(group), LaneBuilder::from(prev()));
  }
};

/// Members that the first rail, which has the most, serves in a group; in the largest; and in all of them.
inline Rank served(const Grouping& groups, Rank group) {
  return (groups.size(group) + groups.smallest() - 1) / groups.smallest();
}
inline Rank max_served(const Grouping& groups) {
  return (groups.largest() + groups.smallest() - 1) / groups.smallest();
}
inline Rank all_served(const Grouping& groups) {
  Rank all = 0;
  for (Rank group = 0; group < groups.groups(); ++group) all += served(groups, group);
  return all;
}

/// The greatest value of figure(group).
template <class Figure>
auto most(const Grouping& groups, const Figure& figure) {
  auto found = figure(Rank{0});
  for (Rank group = 1; group < groups.groups(); ++group) found = std::max(found, figure(group));
  return found;
}

/// What goes between groups where a carrier sends on to one other only: a chain of messages.
inline Cost::Between between_groups(const Grouping& groups, int64_t rounds, Ratio message, Ratio moved) {
  if (groups.groups() == 1) return {};
  return {.rounds = rounds, .moved = moved, .chain = Ratio(rounds) * message, .stages = 1};
}

}  // namespace tutti::algorithms
