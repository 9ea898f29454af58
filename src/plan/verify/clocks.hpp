// What must have happened before: for each lane, how far every other lane has certainly come.
//
// Lamport's happens-before in vector clocks (Fidge 1988, Mattern 1989), with a step of a lane as the unit of its time.
// Credits and drains order steps too, but a transport may hold more messages than promised: they are not counted on.
#pragma once

#include <vector>

#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// A kept copy of a lane's clock.
using Snapshot = uint32_t;
inline constexpr Snapshot kNoSnapshot = kNone;

class Clocks {
 public:
  explicit Clocks(uint32_t lanes);

  /// Steps of `lane`, all rounds together, that are done.
  uint32_t time(uint32_t lane) const { return clock(lane)[lane]; }
  /// True where step number `time` (from 1) of lane `other` is done before whatever `lane` does now.
  bool knows(uint32_t lane, uint32_t other, uint32_t time) const { return clock(lane)[other] >= time; }
  /// `lane` begins a step.
  void tick(uint32_t lane) { ++clock(lane)[lane]; }

  /// The lane's clock without its own component, for `readers` later joins. The same copy serves until it changes.
  Snapshot keep(uint32_t lane, uint32_t readers);
  /// `lane` comes after the moment `time` of `other` whose clock was kept.
  void join(uint32_t lane, Snapshot snapshot, uint32_t other, uint32_t time);
  /// One reader less.
  void drop(Snapshot snapshot);

 private:
  uint32_t* clock(uint32_t lane) { return &clocks_[size_t{lane} * lanes_]; }
  const uint32_t* clock(uint32_t lane) const { return &clocks_[size_t{lane} * lanes_]; }

  uint32_t lanes_;
  std::vector<uint32_t> clocks_;
  std::vector<std::vector<uint32_t>> kept_;
  std::vector<uint32_t> readers_;
  std::vector<Snapshot> free_;
  std::vector<Snapshot> current_;  // by lane: the kept copy that still holds, itself a reader of it
};

}  // namespace tutti::plan::verifier
