// How a thread waits for other ranks: it spins, then yields, then sleeps. All waiting of the data path is here.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cores.hpp"
#include "base/deadline.hpp"

namespace tutti::exec {

/// How long to burn the processor. Spinning wins when every rank has a core to itself; where ranks share cores, each
/// spin keeps the awaited rank from running, so the budget is zero and the first turn yields.
struct Backoff {
  uint32_t spins = 2000;      ///< turns with a pause instruction
  double yield_for = 2e-3;    ///< then seconds of sched_yield
  double nap = 50e-6;         ///< then sleeps of an eighth of what was waited, at least this …
  double longest_nap = 1e-3;  ///< … and at most this
};

/// The budget of a rank that may run on `mine`, where all the ranks of its host may run on `all` (its own among them),
/// in `quota` cores' worth of time.
Backoff backoff_for(const Cores& mine, const std::vector<Cores>& all, double quota);

/// One wait, from the last progress on. The backoff must outlive it.
class Waiter {
 public:
  explicit Waiter(const Backoff& backoff) : backoff_(backoff) {}
  void progressed() { turns_ = 0; }
  /// A turn without progress. Returns the seconds that the caller should sleep, or zero: the turn is already spent.
  double turn();
  /// Seconds since the last progress; zero while still spinning.
  double stalled() const;

 private:
  const Backoff& backoff_;
  uint64_t turns_ = 0;
  Deadline::Clock::time_point since_{};
};

/// A sleep of the calling thread; signals may end it early.
void nap(double seconds);

}  // namespace tutti::exec
