// Between fold.cpp and the files with the kernels of one operator each.
#pragma once

#include <cstdint>

#include "reduce/fold.hpp"

namespace tutti {

/// The targets of Highway that this processor serves. Asked once: the question takes several CPUID instructions, which
/// a virtual machine answers slowly.
int64_t supported_targets();

FoldFn sum_kernel_for(DType type);
FoldFn prod_kernel_for(DType type);
FoldFn min_kernel_for(DType type);
FoldFn max_kernel_for(DType type);

}  // namespace tutti

/// A function exported to Highway, as compiled for the best target of this processor. Highway asks for AES beside
/// SSE4.2 and has no entry for a processor without; our kernels do not use it.
#define TUTTI_DISPATCH(function) \
  ((tutti::supported_targets() & HWY_TARGETS) != 0 ? HWY_DYNAMIC_DISPATCH(function) : HWY_STATIC_DISPATCH(function))
