// Which ranks of a communicator come late again and again.
//
// From the end of one call that no rank leaves before all have entered to the end of another one it is the same time
// for all ranks, but some spend more of it between calls than others, who wait for them. No clocks have to agree for
// that, it does not matter by which algorithms the calls run, and a rank that waits in calls of other communicators is
// not blamed for that.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "control/status/call_timing.hpp"

namespace tutti::control {

struct SlowRank {
  Rank rank = 0;
  double lost = 0;     ///< share of the time that it spends between calls, and the others (their median) do not
  double late_by = 0;  ///< seconds, likewise, for each call
  double seconds = 0;  ///< in which this was so
};

/// Time is looked at in slices of a second, and of 4 s, for programs whose steps take longer; slices without calls do
/// not count. A rank is slow that costs the others a share of their time in at least 15 of the last 16 slices of one
/// length, and each time at least half of the median slice's share: what comes and goes, such as another program on its
/// core, is no slow rank.
class SlowRanks {
 public:
  static constexpr size_t kSlices = 16, kHits = 15, kMerged = 4;
  static constexpr double kLeastLate = 20e-6;  ///< seconds: waits that are shorter are not always traced

  /// `least_lost`: the share from which on a rank is slow.
  explicit SlowRanks(double least_lost) : least_lost_(least_lost) {}

  /// The timing of all ranks, by rank. Called each second.
  void take(const std::vector<const RankTiming*>& ranks);
  /// Those that are slow now.
  std::vector<SlowRank> found() const;
  /// The last call that was compared.
  uint64_t last_number() const { return number_; }

 private:
  /// A rank at the end of a call.
  struct Mark {
    uint64_t left = 0, in_calls = 0, thread = 0;
  };
  struct Slice {
    double span = 0, calls = 0;  // seconds, number
    std::vector<double> late;    // seconds, by rank
    void add(const Slice& other);
  };
  using Slices = std::deque<Slice>;

  void push(size_t level, Slice slice);
  bool is_slow(const Slices& slices, size_t rank, SlowRank& found) const;

  double least_lost_;
  uint64_t number_ = 0;           // of the last call that was compared
  std::vector<Mark> marks_;       // at its end, by rank
  std::array<Slices, 2> levels_;  // the last kSlices of each length
  Slice merging_;                 // the longer one that grows …
  size_t merged_ = 0;             // … and of how many shorter ones it is
};

}  // namespace tutti::control
