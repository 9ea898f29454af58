// Runs calls to their end: every rank that this thread drives, lane by lane, with the engines that move their messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "exec/interpreter.hpp"
#include "exec/links.hpp"
#include "exec/lower.hpp"
#include "exec/wait.hpp"
#include "transports/transport.hpp"

namespace tutti::exec {

/// A lane that could not go on.
struct Stall {
  Await await = Await::Nothing;
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint32_t steps = 0;  ///< operations of the lane in a round
  uint64_t round = 0;
  uint64_t rounds = 0;
  double seconds = 0;  ///< since anything moved
};

/// Who knows what a call means, and puts what happens to it into words.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A message was wrong.
  virtual Status fault(const Fault& fault) = 0;
  /// Nothing has moved for a while; called again and again. A bad status ends the call.
  virtual Status stalled(const Stall& stall) = 0;
  /// The communicator has failed: with what?
  virtual Status failed() = 0;
};

/// One rank's call in flight. What it points to outlives it.
struct Execution {
  RankState state;
  Links* links = nullptr;
  std::vector<transports::Transport*> engines;
  const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
  Observer* observer = nullptr;
  std::vector<LaneState> lanes;
  std::vector<transports::Arrival> arrivals;
  std::vector<const unsigned char*> pointers;
  std::vector<Stage> stages;
  bool done = false;
  Status status;

  /// Points the state at a program; its stages must have memory. Buffers, tag and arithmetic are the caller's to set.
  void load(Lowered& lowered, uint32_t versions);
  /// Gives the stages' use counts back to the program, for the next call.
  void store(Lowered& lowered) const;
};

/// Runs all executions until each is done or has failed. Failures are in their `status`.
void run(std::span<Execution* const> executions, const Patience& patience);

/// Waits until no reader uses staging memory any more. Needed before `Staging::reset`.
Status drain_staging(Links& links, Execution& execution, const Patience& patience);

}  // namespace tutti::exec
