// Runs calls to their end: every rank that this thread drives, lane by lane, with the engines that move their messages.
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

/// What a lane needs of a peer before it can go on.
struct PeerAwait {
  Rank peer = kNoRank;
  uint32_t link_lane = 0;  ///< of the link between the two
  Await await = Await::Nothing;
  bool operator==(const PeerAwait&) const = default;
};

/// A lane that could not go on.
struct Stall {
  Await await = Await::Nothing;
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint32_t steps = 0;  ///< operations of the lane in a round
  uint64_t round = 0;
  uint64_t rounds = 0;
  double seconds = 0;            ///< since anything moved
  uint64_t id = 0;               ///< of this standstill: a new one whenever something has moved, in all of the process
  std::vector<PeerAwait> all;    ///< the call goes on when one of these comes; empty: there is more to it
  const Links* links = nullptr;  ///< with fresh counters of what the peers have consumed
  bool engines = false;          ///< acknowledgements may be under way
};

/// A number that no other standstill of this process has.
uint64_t new_stall_id();

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
  /// Is this peer known to have died?
  virtual bool lost(Rank peer) const = 0;
};

/// A program with all that running it takes: a call that comes again has next to nothing to prepare.
struct Loaded {
  Loaded() = default;
  Loaded(Lowered program, uint32_t versions);

  /// To be called when the program's stages have got memory.
  void take_stages();
  /// Before each call. Buffers, tag and arithmetic are the caller's to set.
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

/// One rank's call in flight. What it points to outlives it.
struct Execution {
  Loaded* program = nullptr;
  Links* links = nullptr;
  std::vector<transports::Transport*> engines;
  const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
  Observer* observer = nullptr;
  bool done = false;
  Status status;

  /// A program that has been restarted is to run.
  void begin(Loaded& loaded) {
    program = &loaded;
    done = false;
    if (!status.ok()) status = {};
  }
};

/// Runs it until it is done or has failed; the failure is in its `status`, and its memory is its caller's alone.
void run(Execution& execution, const Backoff& backoff);

/// The same with several, at least one, until one of them is.
void run_until_one_is_done(std::span<Execution* const> executions, const Backoff& backoff);

/// Ends a call that goes on no more, an exception having come in between: what run() does for one that has failed.
void abandon(Execution& execution);

/// Waits until no reader uses staging memory any more. Needed before `Staging::reset`.
Status drain_staging(Links& links, Execution& execution, const Backoff& backoff);

}  // namespace tutti::exec
