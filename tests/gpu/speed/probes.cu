// Kernels beside which calls of the driver are made (driver_facts.py).
#include "exec/cuda/clock.hpp"
#include "exec/cuda/device.hpp"

namespace tutti::exec::cuda {
/// Words of pinned memory of the host.
struct SpinCall {
  const uint64_t* release = nullptr;  ///< ends when this is at least `number`
  uint64_t* began = nullptr;          ///< set to `number`
  uint64_t number = 0;
  uint64_t limit = 0;  ///< nanoseconds after which it ends without that
};

struct ProbeCall {
  uint64_t* out = nullptr;
  uint64_t number = 0;
};

/// Runs until the host or its own limit ends it: no fault of the host lets it run for ever.
TUTTI_KERNEL(tutti_spin, SpinCall, 32) {
  if (ptx::thread_index() != 0) return;
  const uint64_t began = ptx::nanoseconds();
  ptx::store_release(arguments.began, arguments.number);
  while (ptx::load_relaxed(arguments.release) < arguments.number && ptx::nanoseconds() - began < arguments.limit) {
    ptx::poll_pause();
  }
}

TUTTI_KERNEL(tutti_nothing, ProbeCall, 32) { (void)arguments; }

/// The same, of which nobody makes use before its first launch is measured: drivers may load code when it is launched.
TUTTI_KERNEL(tutti_unused, ProbeCall, 32) { (void)arguments; }

/// Has 16 KiB of local memory a thread: before its first launch a driver may make its pool of that larger.
TUTTI_KERNEL(tutti_stack, ProbeCall, 32) {
  constexpr uint32_t kWords = 2048;
  volatile uint64_t words[kWords];
  for (uint32_t i = 0; i < kWords; ++i) words[(i * 7 + arguments.number) % kWords] = i;
  if (ptx::thread_index() == 0) *arguments.out = words[arguments.number % kWords];
}

}  // namespace tutti::exec::cuda
