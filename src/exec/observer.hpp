// What an executor reports to the communicator while a call runs: faults and stalls, which it turns into error texts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "exec/links.hpp"
#include "exec/state.hpp"

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
  uint32_t replica = 0;   ///< that has the lane, …
  uint32_t replicas = 1;  ///< … of so many: the width of the program
  uint32_t lane = 0;
  uint32_t step = 0;
  uint32_t steps = 0;            ///< instructions of the lane in a round
  uint64_t round = 0;            ///< of an instruction that repeats: its run …
  uint64_t rounds = 0;           ///< … of so many
  double seconds = 0;            ///< since the last progress
  uint64_t id = 0;               ///< of this stall, unique in the process; progress ends a stall
  std::vector<PeerAwait> all;    ///< the call continues when one of these comes; empty: that is not known
  const Links* links = nullptr;  ///< with current counters of consumed messages
  std::vector<pid_t> threads;    ///< of the call, beside the calling one
  bool engines = false;          ///< the call uses engines: acknowledgements may be under way
  uint64_t call = 0;             ///< of a device: the number of the call
  bool has_left = false;         ///< the peer has left without what is waited for, which will not come
  const char* what = nullptr;    ///< in words, that is awaited of the peer, if `await` does not say it: "an answer"
};

/// Calls that a device's copy engines run have numbers of their own, from 1, with this bit.
inline constexpr uint64_t kCountedApart = uint64_t{1} << 63;
/// So have the waits of calls on windows (WindowCall::id).
inline constexpr uint64_t kOnWindow = uint64_t{1} << 62;

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
  /// The call has waited for `peer` (kNoRank: it is not known for whom) since `since`, longer than kLongWait
  /// (exec/idle_loop.hpp), and goes on now.
  virtual void waited(Rank peer, Deadline::Clock::time_point since) { (void)peer, (void)since; }
  /// The communicator has failed, so a device's call is ended, which waited like this.
  virtual void cut_off(const Stall& stall) { (void)stall; }
  /// The device can do no more work, for this reason: in call `stall.call`, which waited like this when it said so last
  /// (Await::Nothing: it has not). Fails the communicator.
  virtual void processor_failed(const std::string& why, const Stall& stall) { (void)why, (void)stall; }
  /// The error with which the communicator has failed.
  virtual Status failed() = 0;
  /// Is this peer known to have died?
  virtual bool lost(Rank peer) const = 0;
  /// Has it left the communicator?
  virtual bool left(Rank peer) const { return (void)peer, false; }
};

}  // namespace tutti::exec
