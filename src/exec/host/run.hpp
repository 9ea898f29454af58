// Runs calls to their end: every rank that this thread drives, lane by lane, with the engines of its transports.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "exec/compile/lower.hpp"
#include "exec/host/wait.hpp"
#include "exec/interpreter.hpp"
#include "exec/links.hpp"
#include "transports/transport.hpp"

namespace tutti::exec {

/// What a lane needs from a peer before it can continue.
struct PeerAwait {
  Rank peer = kNoRank;
  uint32_t link_lane = 0;  ///< of the link between the two
  Await await = Await::Nothing;
  bool operator==(const PeerAwait&) const = default;
};

/// A stall: nothing moves. The fields up to `rounds` describe one lane.
struct Stall {
  Await await = Await::Nothing;
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint32_t steps = 0;  ///< instructions of the lane in a round
  uint64_t round = 0;
  uint64_t rounds = 0;
  double seconds = 0;            ///< since the last progress
  uint64_t id = 0;               ///< of this stall, unique in the process; progress ends a stall
  std::vector<PeerAwait> all;    ///< the call continues when one of these comes; empty: that is not known
  const Links* links = nullptr;  ///< with current counters of consumed messages
  bool engines = false;          ///< the call uses engines: acknowledgements may be under way
};

/// A stall id that is unique in this process.
uint64_t new_stall_id();

/// Turns faults and stalls of a call into errors that name the call.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A message or counter was invalid.
  virtual Status fault(const Fault& fault) = 0;
  /// Nothing has moved for a while; called repeatedly. An error ends the call.
  virtual Status stalled(const Stall& stall) = 0;
  /// The error with which the communicator has failed.
  virtual Status failed() = 0;
  /// Is this peer known to have died?
  virtual bool lost(Rank peer) const = 0;
};

/// A program and the state to run it, kept so that a repeated call has almost nothing to prepare.
struct Loaded {
  Loaded() = default;
  Loaded(Lowered program, uint32_t versions);

  /// Call it when the program's stages have memory.
  void take_stages();
  /// Call it before each run. The caller sets buffers, tag and arithmetic.
  void restart(Links& links) {
    state.out = links.outs().data();
    state.in = links.ins().data();
    for (LaneState& lane : lanes) lane.op = lane.arrived = 0, lane.round = 0, lane.warm = 0, lane.next = nullptr;
  }

  Lowered lowered;
  RankState state;
  std::vector<LaneState> lanes;
  std::vector<link::Arrival> arrivals;
  std::vector<const unsigned char*> pointers;
  std::vector<Stage> stages;
};

/// One rank's running call. All that it points to outlives it.
struct Execution {
  Loaded* program = nullptr;
  Links* links = nullptr;
  std::vector<transports::Transport*> engines;
  const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
  Observer* observer = nullptr;
  bool done = false;
  Status status;

  /// Starts a run of `loaded`, which has been restarted.
  void begin(Loaded& loaded) {
    program = &loaded;
    done = false;
    if (!status.ok()) status = {};
  }
};

/// Runs a call until it is done or has failed. The error is then in its `status`, and no other rank uses its buffers.
void run(Execution& execution, const Backoff& backoff);

/// Runs one or more calls until at least one of them is done or has failed.
void run_until_one_is_done(std::span<Execution* const> executions, const Backoff& backoff);

/// Ends a call that cannot continue, as run() does for a failed one; for callers that caught an exception.
void abandon(Execution& execution);

/// Waits until no reader uses staging memory. Needed before `Staging::reset`.
Status drain_staging(Links& links, Execution& execution, const Backoff& backoff);

}  // namespace tutti::exec
