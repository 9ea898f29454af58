#include "link/writable_memory.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "link/mapped_memory.hpp"

namespace tutti::link {
namespace {

/// Lets the kernel set no bit of the word that has this byte, atomically: other threads' writes are not lost.
bool takes_writes(uintptr_t at) {
  constexpr int kSetNoBit = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
  uint32_t nobody_waits = 0;
  const uintptr_t word = at / sizeof(uint32_t) * sizeof(uint32_t);
  const long woken = ::syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, word, kSetNoBit);
  return woken >= 0 || errno != EFAULT;
}

/// Lets the kernel compare the word that has this byte with another one, and move no waiter.
bool takes_reads(uintptr_t at) {
  uint32_t other = 0;
  const uintptr_t word = at / sizeof(uint32_t) * sizeof(uint32_t);
  const long moved = ::syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, nullptr, &other, 0);
  return moved >= 0 || errno != EFAULT;
}

bool all_pages(const void* memory, uint64_t bytes, bool (*take)(uintptr_t)) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  for (uintptr_t at = begin; at < begin + bytes; at = at / page_bytes() * page_bytes() + page_bytes()) {
    if (!take(at)) return false;
  }
  return true;
}

}  // namespace

bool is_readable_throughout(const void* memory, uint64_t bytes) { return all_pages(memory, bytes, takes_reads); }
bool is_writable_throughout(const void* memory, uint64_t bytes) { return all_pages(memory, bytes, takes_writes); }

bool is_writable(const void* memory, uint64_t bytes) {
  if (bytes == 0) return true;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return takes_writes(begin) && takes_writes(begin + bytes - 1);
}

}  // namespace tutti::link
