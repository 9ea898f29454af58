// A GPU's time, for measurements: no kernel of the library asks for it.
#pragma once

#include "exec/cuda/device.hpp"

#if !defined(__CUDACC__)
#include <chrono>
#endif

namespace tutti::ptx {

/// Nanoseconds, the same for all multiprocessors. It advances in steps, of 32 ns on some GPUs and of 1 us on others.
TUTTI_DEVICE uint64_t nanoseconds() {
#if defined(__CUDACC__)
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) : : "memory");
  return time;
#else
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count());
#endif
}

}  // namespace tutti::ptx
