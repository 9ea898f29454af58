// Happens-before: for each lane, the steps of other lanes that are certainly done.
//
// Lamport's happens-before in vector clocks (Fidge 1988, Mattern 1989); the unit of a lane's time is a step. Credits
// and drains order steps too, but are ignored, because a transport may hold more messages than it promises.
#pragma once

#include <span>
#include <vector>

#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// A kept copy of a lane's clock.
using Snapshot = uint32_t;
inline constexpr Snapshot kNoSnapshot = kNone;

class Clocks {
 public:
  /// Clocks of all `lanes`; each holds the progress of the `watched` lanes.
  Clocks(uint32_t lanes, std::span<const uint32_t> watched);

  /// Steps of `lane`, all rounds together, that are done.
  uint32_t time(uint32_t lane) const { return times_[lane]; }
  /// True if step number `time` (from 1) of lane `other`, a watched one, happens before the current step of `lane`.
  bool knows(uint32_t lane, uint32_t other, uint32_t time) const { return clock(lane)[column_[other]] >= time; }
  /// `lane` begins a step.
  void tick(uint32_t lane) { ++times_[lane]; }

  /// A copy of the lane's clock for `readers` later joins. Calls share one copy until the clock changes.
  Snapshot keep(uint32_t lane, uint32_t readers);
  /// Joins into `lane` the clock that `other` kept at `time`.
  void join(uint32_t lane, Snapshot snapshot, uint32_t other, uint32_t time);
  /// Releases one reader of a copy.
  void drop(Snapshot snapshot);

 private:
  uint32_t* clock(uint32_t lane) { return &clocks_[size_t{lane} * width_]; }
  const uint32_t* clock(uint32_t lane) const { return &clocks_[size_t{lane} * width_]; }

  uint32_t width_;
  std::vector<uint32_t> times_;   // by lane
  std::vector<uint32_t> column_;  // by lane: its column in a clock; kNone if it is not watched
  std::vector<uint32_t> clocks_;  // a row for each lane
  std::vector<std::vector<uint32_t>> kept_;
  std::vector<uint32_t> readers_;
  std::vector<Snapshot> free_;
  std::vector<Snapshot> current_;  // by lane: the copy of its current clock, of which it is a reader itself
};

}  // namespace tutti::plan::verifier
