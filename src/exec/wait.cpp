#include "exec/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>

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
  if (turns_ == 0) since_ = {};
  if (++turns_ <= backoff_.spins) {
    turns_ % machine_constants().spins_to_a_yield == 0 ? void(sched_yield()) : pause();
    return 0;
  }
  if (turns_ <= backoff_.spins + machine_constants().untimed_yields) {
    sched_yield();
    return 0;
  }
  if (since_ == Deadline::Clock::time_point{}) since_ = Deadline::Clock::now();
  const double waited = stalled();
  if (waited < backoff_.yield_for) {
    sched_yield();
    return 0;
  }
  return std::clamp(waited / 8, backoff_.nap, backoff_.longest_nap);
}

double Waiter::stalled() const {
  if (turns_ <= backoff_.spins || since_ == Deadline::Clock::time_point{}) return 0;
  return std::chrono::duration<double>(Deadline::Clock::now() - since_).count();
}

void nap(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec length{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&length, nullptr);
}

}  // namespace tutti::exec
