// Which ranks are near each other (one host, one island of fast links): what two-level algorithms work along.
#pragma once

#include <span>
#include <string_view>
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
  /// False where all ranks are in one group, or each is in one of its own: then groups tell nothing.
  bool has_two_levels() const { return groups() > 1 && largest_ > 1; }
  /// The same groups, with ranks counted from `root`: rank r is now (r − root) mod n.
  Grouping seen_from(Rank root) const;

 private:
  static size_t at(Rank r) { return static_cast<size_t>(r); }
  std::vector<Rank> group_, place_;  // by rank
  std::vector<Rank> members_;        // group after group
  std::vector<size_t> first_;        // by group, and one more: its place in members_
  Rank smallest_ = 0, largest_ = 0;
};

/// Labels for `ranks` ranks, in words: "4" for groups of four neighbours each (the last has what is left), or a label
/// for every rank, "0,0,1,1,1". Throws Error(InvalidArgument), which names `source` as where the words are from.
std::vector<Rank> parse_labels(std::string_view words, Rank ranks, std::string_view source);

}  // namespace tutti::plan
