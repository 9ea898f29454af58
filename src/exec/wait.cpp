#include "exec/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/cgroup.hpp"

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

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, static_cast<int>(std::min<double>(allowed, std::ceil(core_quota()))));
}

Patience patience_for(int ranks_on_host) {
  Patience patience;
  if (ranks_on_host > usable_cores()) patience.spins = 0;
  return patience;
}

double Waiter::turn() {
  if (turns_ == 0) since_ = {};
  if (++turns_ <= patience_.spins) {
    pause();
    return 0;
  }
  if (since_ == Deadline::Clock::time_point{}) since_ = Deadline::Clock::now();
  const double waited = stalled();
  if (waited < patience_.yield_for) {
    sched_yield();
    return 0;
  }
  return std::clamp(waited / 8, patience_.nap, patience_.longest_nap);
}

double Waiter::stalled() const {
  if (turns_ <= patience_.spins || since_ == Deadline::Clock::time_point{}) return 0;
  return std::chrono::duration<double>(Deadline::Clock::now() - since_).count();
}

void nap(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec length{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&length, nullptr);
}

}  // namespace tutti::exec
