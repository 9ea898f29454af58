// How a thread waits for other ranks: it spins, then yields, then sleeps. All waiting of the data path is here.
#pragma once

#include <cstdint>

#include "base/deadline.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {

/// How long to spin, yield and sleep. Spinning is fastest when every rank has its own core. When ranks share cores, a
/// spin keeps the awaited rank from running, so there are no spins and the first turn yields.
struct Backoff {
  uint32_t spins = machine_constants().spins;        ///< turns with a pause instruction
  double yield_for = machine_constants().yield_for;  ///< then seconds of sched_yield
  double nap = machine_constants().shortest_nap;     ///< then sleeps of an eighth of the time waited: seconds at least,
  double longest_nap = machine_constants().longest_nap;  ///< and at most
};

/// `shares_cores`: the rank must share a core with others (topo/machine.hpp).
Backoff backoff_for(bool shares_cores);

/// One wait, since the last progress. The backoff must outlive it.
class Waiter {
 public:
  explicit Waiter(const Backoff& backoff) : backoff_(backoff) {}
  void progressed() { turns_ = 0; }
  /// A turn without progress: spins or yields and returns 0, or returns the seconds that the caller should sleep.
  double turn();
  /// Seconds from the first turn that read the clock to the last one; zero while it spins.
  double stalled() const { return turns_ == 0 ? 0 : stalled_; }
  /// When that first turn was; only while stalled() is not zero.
  Deadline::Clock::time_point since() const { return since_; }

 private:
  const Backoff& backoff_;
  uint64_t turns_ = 0;
  Deadline::Clock::time_point since_{};
  double stalled_ = 0;
};

/// A sleep of the calling thread; signals may end it early.
void nap(double seconds);

}  // namespace tutti::exec
