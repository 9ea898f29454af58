// The order of ranks that plans are drawn on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/grouping.hpp"

namespace tutti::plan {

/// Algorithms number ranks from 0 to n − 1, the root first: neighbours in a ring or chain, and halves of a tree, are
/// those of this numbering. By default it is that of the communicator, counted from the root. On a machine where
/// neighbouring numbers are far apart it is a permutation, so that what an algorithm takes for near is near. A plan in
/// an order is the proven plan with its ranks renamed, blocks of buffers with them.
class RankOrder {
 public:
  /// That of the communicator.
  RankOrder() = default;
  /// ranks[i] is the i-th. As the root comes first, only who follows whom counts: 2, 0, 1 is the communicator's. Throws
  /// Error(InvalidArgument) unless each rank from 0 on is there once.
  explicit RankOrder(std::vector<Rank> ranks);

  bool is_given() const { return given_ != nullptr; }
  /// The communicator's rank of a plan's rank, in a communicator of n ranks.
  Rank actual(Rank planned, Rank root, Rank n) const {
    if (given_ == nullptr) return static_cast<Rank>((int64_t{planned} + root) % n);
    return given_->ranks[static_cast<size_t>((int64_t{planned} + place(root)) % n)];
  }
  /// And back.
  Rank planned(Rank actual, Rank root, Rank n) const {
    if (given_ == nullptr) return static_cast<Rank>((int64_t{actual} - root + n) % n);
    return static_cast<Rank>((int64_t{place(actual)} - place(root) + n) % n);
  }
  /// The groups, of the plan's ranks.
  std::shared_ptr<const Grouping> seen(const std::shared_ptr<const Grouping>& groups, Rank root) const;
  /// By place; empty if it is the communicator's.
  std::span<const Rank> ranks() const {
    return given_ == nullptr ? std::span<const Rank>() : std::span<const Rank>(given_->ranks);
  }
  friend bool operator==(const RankOrder& a, const RankOrder& b) {
    return std::vector<Rank>(a.ranks().begin(), a.ranks().end()) ==
           std::vector<Rank>(b.ranks().begin(), b.ranks().end());
  }

 private:
  struct Given {
    std::vector<Rank> ranks, places;
  };
  Rank place(Rank rank) const { return given_->places[static_cast<size_t>(rank)]; }
  std::shared_ptr<const Given> given_;
};

}  // namespace tutti::plan
