// Declarations shared by fold.cpp and the files with the kernels of one operator each.
#pragma once

#include <cstdint>

#include "reduce/fold.hpp"

namespace tutti {

/// The Highway targets that this processor supports. Computed once: it takes several CPUID instructions, which are slow
/// in a virtual machine.
int64_t supported_targets();

FoldFn sum_kernel_for(DType type);
FoldFn prod_kernel_for(DType type);
FoldFn min_kernel_for(DType type);
FoldFn max_kernel_for(DType type);

}  // namespace tutti

/// A function exported to Highway, compiled for the best target of this processor. Highway requires AES for its SSE4
/// target and has no entry for a processor without it; the kernels here do not use AES.
#define TUTTI_DISPATCH(function) \
  ((tutti::supported_targets() & HWY_TARGETS) != 0 ? HWY_DYNAMIC_DISPATCH(function) : HWY_STATIC_DISPATCH(function))
