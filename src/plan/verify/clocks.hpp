// What must have happened before: for each lane, how far others have certainly come.
//
// Lamport's happens-before in vector clocks (Fidge 1988, Mattern 1989), with a step of a lane as the unit of its time.
// Credits and drains order steps too, but a transport may hold more messages than promised: they are not counted on.
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
  /// Clocks of all `lanes`, each of which says how far the `watched` ones have come.
  Clocks(uint32_t lanes, std::span<const uint32_t> watched);

  /// Steps of `lane`, all rounds together, that are done.
  uint32_t time(uint32_t lane) const { return times_[lane]; }
  /// True where step number `time` (from 1) of lane `other`, a watched one, is done before whatever `lane` does now.
  bool knows(uint32_t lane, uint32_t other, uint32_t time) const { return clock(lane)[column_[other]] >= time; }
  /// `lane` begins a step.
  void tick(uint32_t lane) { ++times_[lane]; }

  /// What the lane knows of others, for `readers` later joins. The same copy serves until it changes.
  Snapshot keep(uint32_t lane, uint32_t readers);
  /// `lane` comes after the moment `time` of `other` whose clock was kept.
  void join(uint32_t lane, Snapshot snapshot, uint32_t other, uint32_t time);
  /// One reader less.
  void drop(Snapshot snapshot);

 private:
  uint32_t* clock(uint32_t lane) { return &clocks_[size_t{lane} * width_]; }
  const uint32_t* clock(uint32_t lane) const { return &clocks_[size_t{lane} * width_]; }

  uint32_t width_;
  std::vector<uint32_t> times_;   // by lane
  std::vector<uint32_t> column_;  // by lane: its place in a clock; kNone where nobody asks for it
  std::vector<uint32_t> clocks_;  // a row for each lane
  std::vector<std::vector<uint32_t>> kept_;
  std::vector<uint32_t> readers_;
  std::vector<Snapshot> free_;
  std::vector<Snapshot> current_;  // by lane: the kept copy that still holds, itself a reader of it
};

}  // namespace tutti::plan::verifier
