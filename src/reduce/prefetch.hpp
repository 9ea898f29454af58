// Asking the processor for memory ahead of time.
#pragma once

namespace tutti {

/// Brings the line into this core's cache and takes it from all others: it is about to be written. Reads and writes
/// nothing that a program could see; any address will do.
inline void prefetch_for_writing(const void* address) {
#if defined(__x86_64__)
  // Spelt out: compilers ask for a shared copy instead unless told that the processor knows this instruction, and those
  // that do not take it for one that does nothing.
  asm volatile("prefetchw (%0)" ::"r"(address));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

}  // namespace tutti
