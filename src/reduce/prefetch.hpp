// Prefetching for writing.
#pragma once

namespace tutti {

/// Brings the line into this core's cache for writing, and invalidates it in all others. It has no effect that a
/// program could see, and any address is allowed.
inline void prefetch_for_writing(const void* address) {
#if defined(__x86_64__)
  // Inline assembly: compilers prefetch for reading unless they know that the processor has it. Processors
  // without it execute it as a no-op.
  asm volatile("prefetchw (%0)" ::"r"(address));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

}  // namespace tutti
