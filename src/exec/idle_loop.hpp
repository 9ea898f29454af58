// What a thread does while none of its calls moves: it waits, and checks for failures and stalls.
#pragma once

#include <algorithm>
#include <span>

#include "exec/observer.hpp"
#include "exec/pending.hpp"
#include "exec/wait.hpp"

namespace tutti::exec {

inline constexpr double kFirstStallCheck = 20e-3;     ///< seconds without progress until the first check of a stall
inline constexpr double kLongestStallInterval = 1.0;  ///< seconds between checks at most; the interval doubles
inline constexpr double kLongWait = 20e-6;            ///< seconds without progress that are told to the calls

class IdleLoop {
 public:
  explicit IdleLoop(const Backoff& backoff) : waiter_(backoff) {}
  /// Something has moved, or the calls have ended.
  void ended(std::span<Pending* const> calls) {
    if (waits_long_) [[unlikely]]
      end_long_wait(calls);
    waiter_.progressed();
    next_check_ = kFirstStallCheck;
  }
  /// Nothing has.
  void turn(std::span<Pending* const> calls) {
    const double rest = waiter_.turn();
    for (Pending* call : calls) call->check_failure(waiter_.stalled());
    if (!waits_long_ && waiter_.stalled() >= kLongWait) {
      waits_long_ = true;
      for (Pending* call : calls) call->long_wait_begins();
    }
    if (rest == 0) return;
    if (waiter_.stalled() >= next_check_) {
      if (next_check_ == kFirstStallCheck) stall_id_ = new_stall_id();
      next_check_ = waiter_.stalled() + std::min(next_check_, kLongestStallInterval);
      for (Pending* call : calls) call->check_stall(waiter_.stalled(), stall_id_);
    }
    const bool slept =
        std::any_of(calls.begin(), calls.end(), [rest](Pending* call) { return !call->done() && call->sleep(rest); });
    if (!slept) nap(rest);
  }

 private:
  void end_long_wait(std::span<Pending* const> calls) {
    waits_long_ = false;
    for (Pending* call : calls) call->long_wait_ends(waiter_.since());
  }

  Waiter waiter_;
  bool waits_long_ = false;
  double next_check_ = kFirstStallCheck;
  uint64_t stall_id_ = 0;
};

}  // namespace tutti::exec
