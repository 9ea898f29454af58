// Groups of ranks that are near each other (on one host, or connected by fast links), for two-level algorithms.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/rank.hpp"

namespace tutti::plan {

/// Every rank is a member of one group. Groups are numbered in the order of their first members, so rank 0 is the first
/// member of group 0. They may have any sizes, and members need not be neighbours.
class Grouping {
 public:
  /// Ranks with equal `labels` are a group.
  explicit Grouping(std::span<const Rank> labels);

  Rank ranks() const { return static_cast<Rank>(group_.size()); }
  Rank groups() const { return static_cast<Rank>(first_.size() - 1); }
  Rank group_of(Rank r) const { return group_[at(r)]; }
  /// The rank's index within its group, 0 for the first member.
  Rank place_of(Rank r) const { return place_[at(r)]; }
  /// The members of a group, in rank order.
  std::span<const Rank> members(Rank group) const { return {&members_[first_[at(group)]], at(size(group))}; }
  Rank member(Rank group, Rank place) const { return members_[first_[at(group)] + at(place)]; }
  Rank size(Rank group) const { return static_cast<Rank>(first_[at(group) + 1] - first_[at(group)]); }
  /// The number of members of the smallest and of the largest group.
  Rank smallest() const { return smallest_; }
  Rank largest() const { return largest_; }
  /// False if there is one group, or every rank is alone: then the grouping is trivial.
  bool has_two_levels() const { return groups() > 1 && largest_ > 1; }

 private:
  static size_t at(Rank r) { return static_cast<size_t>(r); }
  std::vector<Rank> group_, place_;  // by rank
  std::vector<Rank> members_;        // ordered by group
  std::vector<size_t> first_;        // by group, and one more: its first index in members_
  Rank smallest_ = 0, largest_ = 0;
};

/// Reads labels for `ranks` ranks: "4" for groups of four neighbours (the last has the rest), or one label for every
/// rank, "0,0,1,1,1". Throws Error(InvalidArgument), which names `source` as the origin of the text.
std::vector<Rank> parse_labels(std::string_view words, Rank ranks, std::string_view source);

}  // namespace tutti::plan
