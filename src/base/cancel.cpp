#include "base/cancel.hpp"

#include <ctime>

#include "base/format.hpp"

namespace tutti {

constinit thread_local const Cancellable* detail::cancellable = nullptr;

double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

Cancellable::Cancellable(const std::atomic<bool>& cancelled, double processor_seconds)
    : cancelled_(cancelled), limit_(processor_seconds), end_(tutti::processor_seconds() + processor_seconds) {
  detail::cancellable = this;
}

Cancellable::~Cancellable() { detail::cancellable = nullptr; }

void Cancellable::check() const {
  if (cancelled_.load(std::memory_order_relaxed)) throw Error(Code::Aborted, "the computation was cancelled");
  constexpr uint32_t kChecksAClock = 64;  // the clock is a system call
  if (checks_++ % kChecksAClock != 0 || processor_seconds() < end_) return;
  throw_error(Code::Timeout, "it takes more than {:.3g} s of processor time", limit_);
}

}  // namespace tutti
