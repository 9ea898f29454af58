// Replays the programs of all ranks on a machine, event by event.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/machine.hpp"
#include "sim/programs.hpp"

namespace tutti::sim {

/// What a lane did, for traces: an instruction, from its start to its end.
struct Event {
  Rank rank = 0;
  uint32_t lane = 0, replica = 0, step = 0;
  uint64_t round = 0, bytes = 0;
  Rank from = kNoRank, to = kNoRank;  ///< of its first message that came, or goes
  bool folds = false;
  double begin = 0, end = 0;
};

struct ReplayOptions {
  uint32_t width = 1;     ///< replicas of the lanes, over disjoint windows
  uint64_t rounds = 1;    ///< of these, the last is the short one
  uint32_t calls = 1;     ///< that each rank makes, one right after the other
  size_t max_events = 0;  ///< that are kept
};

struct Replay {
  double seconds = 0;                ///< until the last rank is done
  std::vector<double> call_ends;     ///< when all ranks are done with each call
  std::vector<double> round_ends;    ///< when all ranks are through a round of the first call
  std::vector<double> rank_seconds;  ///< when each rank is done
  std::vector<double> carried;       ///< bytes, by resource, of all rounds but the last …
  std::vector<double> carried_last;  ///< … and of the last
  uint64_t messages = 0;
  std::vector<Event> events;  ///< the first ones
};

/// Runs the rounds with their messages on `network`, which is idle and at time 0. Throws Error(InternalError), which
/// names a rank and what it waits for, if ranks wait for each other.
Replay replay(const Programs& programs, Machine& machine, Network& network, const ReplayOptions& options);

}  // namespace tutti::sim
