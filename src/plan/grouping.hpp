// Which ranks are near each other (one host, one island of fast links): what two-level algorithms work along.
#pragma once

#include <span>
#include <vector>

#include "base/rank.hpp"

namespace tutti::plan {

/// Every rank is a member of one group. Groups are numbered by their first members, so rank 0 is the first member of
/// group 0; they may be of any sizes, and members need not be neighbours.
class Grouping {
 public:
  /// `labels[r]` is a number that the ranks of rank r's group share, and no other rank has.
  explicit Grouping(std::span<const Rank> labels);

  Rank ranks() const { return static_cast<Rank>(group_.size()); }
  Rank groups() const { return static_cast<Rank>(first_.size() - 1); }
  Rank group_of(Rank r) const { return group_[at(r)]; }
  /// 0 for the first member of a group.
  Rank place_of(Rank r) const { return place_[at(r)]; }
  /// The members of a group, in rank order.
  std::span<const Rank> members(Rank group) const { return {&members_[first_[at(group)]], at(size(group))}; }
  Rank member(Rank group, Rank place) const { return members_[first_[at(group)] + at(place)]; }
  Rank size(Rank group) const { return static_cast<Rank>(first_[at(group) + 1] - first_[at(group)]); }
  /// Members of the smallest, of the largest group.
  Rank smallest() const { return smallest_; }
  Rank largest() const { return largest_; }

 private:
  static size_t at(Rank r) { return static_cast<size_t>(r); }
  std::vector<Rank> group_, place_;  // by rank
  std::vector<Rank> members_;        // group after group
  std::vector<size_t> first_;        // by group, and one more: its place in members_
  Rank smallest_ = 0, largest_ = 0;
};

}  // namespace tutti::plan
