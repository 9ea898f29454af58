#include "exec/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti::exec {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Backoff backoff_for(bool shares_cores) {
  Backoff backoff;
  if (shares_cores) backoff.spins = 0;
  return backoff;
}

double Waiter::turn() {
  if (turns_ == 0) {
    since_ = {};
    stalled_ = 0;
  }
  if (++turns_ <= backoff_.spins) {
    turns_ % machine_constants().spins_to_a_yield == 0 ? void(sched_yield()) : pause();
    return 0;
  }
  // Most waits end within these yields; but on a busy machine each may take milliseconds, so some read the clock.
  const uint64_t yields = turns_ - backoff_.spins;
  const bool soon = yields <= machine_constants().untimed_yields;
  if (soon && !std::has_single_bit(yields)) {
    sched_yield();
    return 0;
  }
  const auto now = Deadline::Clock::now();
  if (since_ == Deadline::Clock::time_point{}) since_ = now;
  stalled_ = std::chrono::duration<double>(now - since_).count();
  if (soon || stalled_ < backoff_.yield_for) {
    sched_yield();
    return 0;
  }
  return std::clamp(stalled_ / 8, backoff_.nap, backoff_.longest_nap);
}

void nap(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec length{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&length, nullptr);
}

}  // namespace tutti::exec
