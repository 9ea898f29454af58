// Long computations that may be given up before they end.
//
// What computes for seconds calls check_cancelled() every few milliseconds. That does nothing, except on a thread that
// has a Cancellable scope: there it throws, once the computation is no longer wanted or has taken too much time.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

class Cancellable {
 public:
  /// From now on, this thread's computations are given up when `cancelled` becomes true, or when they have taken so
  /// many seconds of processor time. That of the clock would say nothing of a thread that seldom gets a processor.
  Cancellable(const std::atomic<bool>& cancelled, double processor_seconds);
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

  /// Throws Error(Aborted), or Error(Timeout).
  void check() const;

 private:
  const std::atomic<bool>& cancelled_;
  double limit_;
  double end_;  // of this thread's processor time
  mutable uint32_t checks_ = 0;
};

/// Seconds of processor time that this thread has used.
double processor_seconds();

namespace detail {
extern thread_local const Cancellable* cancellable;
}

inline void check_cancelled() {
  if (detail::cancellable != nullptr) detail::cancellable->check();
}

}  // namespace tutti
