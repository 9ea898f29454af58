// What the kernel of windows does beyond device.hpp, whose rules apply.
#pragma once

#include "exec/cuda/device.hpp"

namespace tutti::ptx {

/// Sequentially consistent steps on a word, for all GPUs and hosts; the former value.
TUTTI_DEVICE uint64_t add_in_order(uint64_t* at, uint64_t operand) {
#if defined(__CUDACC__)
  asm volatile("fence.sc.sys;" : : : "memory");
  return fetch_add(at, operand);
#else
  return host::word(at).fetch_add(operand);
#endif
}
TUTTI_DEVICE uint64_t compare_swap_in_order(uint64_t* at, uint64_t expected, uint64_t desired) {
#if defined(__CUDACC__)
  uint64_t old;
  asm volatile("fence.sc.sys;" : : : "memory");
  asm volatile("atom.acq_rel.sys.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(at), "l"(expected), "l"(desired)
               : "memory");
  return old;
#else
  host::word(at).compare_exchange_strong(expected, desired);
  return expected;
#endif
}

}  // namespace tutti::ptx
