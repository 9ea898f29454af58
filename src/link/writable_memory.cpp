#include "link/writable_memory.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

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

}  // namespace

bool is_writable(const void* memory, uint64_t bytes) {
  if (bytes == 0) return true;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return takes_writes(begin) && takes_writes(begin + bytes - 1);
}

}  // namespace tutti::link
