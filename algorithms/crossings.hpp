// Which messages of an exchange along leaves go between groups, where an algorithm that knows nothing of groups happens
// to keep some inside: ranks in groups of 2^j neighbours exchange at distances below 2^j without leaving theirs.
#pragma once

#include <vector>

#include "algorithms/common.hpp"

namespace tutti::algorithms {

/// What goes between groups where leaf v exchanges with leaf v xor 2^k for k = 0, 1, …, and the odd rank of a pair with
/// the even one. A step, or all pairs, is between groups as soon as any message of it is.
class Crossings {
 public:
  Crossings(const Leaves& leaves, const Grouping& groups) {
    const auto apart = [&](Rank a, Rank b) { return groups.group_of(a) != groups.group_of(b); };
    for (Rank v = 0; v < leaves.e; ++v) pairs_ = pairs_ || apart(2 * v, 2 * v + 1);
    for (Rank distance = 1; distance < leaves.m; distance *= 2) {
      bool crosses = false;
      for (Rank v = 0; v < leaves.m; ++v) crosses = crosses || apart(leaves.first(v), leaves.first(v ^ distance));
      steps_.push_back(crosses);
    }
  }

  /// With a rank's length(k) in step k, in each of `times` exchanges at that distance; and, where pairs are apart, what
  /// goes between the two: `paired` of a rank, in as many messages on a chain as `detours`.
  template <class Length>
  Cost::Between cost(int64_t times, const Length& length, Ratio paired, int64_t detours) const {
    Cost::Between between;
    for (size_t k = 0; k < steps_.size(); ++k) {
      if (!steps_[k]) continue;
      between.rounds += times;
      between.stages += times;
      between.moved = between.moved + Ratio(times) * length(static_cast<Rank>(k));
    }
    between.chain = between.moved;
    if (!pairs_) return between;
    between.rounds += detours;
    between.stages += 1;
    between.moved = between.moved + paired;
    between.chain = between.chain + Ratio(detours) * paired;
    return between;
  }

 private:
  std::vector<bool> steps_;
  bool pairs_ = false;
};

}  // namespace tutti::algorithms
