// The parameter of the kernel that makes an atomic step on a window.
#pragma once

#include <cstdint>

namespace tutti::exec::cuda {

struct WindowAtomic {
  uint64_t* at = nullptr;      ///< 8 bytes of a part
  uint64_t* before = nullptr;  ///< what they were, in memory of this GPU
  uint64_t operand = 0;        ///< what is added, or what is there afterwards …
  uint64_t expected = 0;       ///< … if this was
  uint64_t compares = 0;       ///< 1: a compare-and-swap
};

}  // namespace tutti::exec::cuda
