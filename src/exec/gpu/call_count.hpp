// How far a rank is ahead of its GPU: calls that were enqueued and have not ended. Captured calls are not counted,
// since a graph repeats them.
//
// A stream's queue holds some 1,000 launches. A launch beyond that waits in the driver, with locks that other ranks of
// the process may need. So the library waits before: others go on, and a communicator that fails ends the wait.
#pragma once

#include <atomic>
#include <cstdint>

#include "exec/gpu/lanes.hpp"

namespace tutti::exec::gpu {

/// Calls of a rank that its GPU has not ended, at most. With an event for each, and a wait for another stream, they fit
/// a queue.
inline constexpr uint64_t kMaxCallsAhead = 256;

/// Of one communicator on one GPU. One thread at a time, except planned(), enqueued() and ended().
class CallCount {
 public:
  /// `failed`: as in BackendContext.
  CallCount(const HostRecord& record, const std::atomic<uint32_t>& failed) : record_(record), failed_(failed) {}
  /// The number of the next call, from 1, when fewer than `limit` are ahead of it. Throws Error(PeerFailed) if the
  /// communicator fails meanwhile.
  uint64_t next(uint64_t limit = kMaxCallsAhead) const;
  /// The next call has been planned. Whoever changes what plans look at first, and then asks for planned(), has a plan
  /// made with what was changed, or its call counted.
  void plan() { is_planned_.store(true, std::memory_order_seq_cst); }
  /// The next call has been enqueued, …
  void add() {
    enqueued_.store(enqueued() + 1, std::memory_order_relaxed);
    end_plan();
  }
  /// … or was captured, and is not counted.
  void end_plan() { is_planned_.store(false, std::memory_order_release); }
  /// So many have been enqueued, with the one that has been planned.
  uint64_t planned() const {
    const uint64_t one = is_planned_.load(std::memory_order_seq_cst) ? 1 : 0;  // first: it is counted before this ends
    return enqueued() + one;
  }
  /// So many have been enqueued, and so many have ended.
  uint64_t enqueued() const { return enqueued_.load(std::memory_order_relaxed); }
  uint64_t ended() const;
  /// Until the call of this number has ended. Throws as next() does.
  void wait_for(uint64_t number) const;

 private:
  const HostRecord& record_;
  const std::atomic<uint32_t>& failed_;
  std::atomic<uint64_t> enqueued_{0};
  std::atomic<bool> is_planned_{false};
};

}  // namespace tutti::exec::gpu
