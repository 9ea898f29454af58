// Between fold.cpp and the files with the kernels of one operator each.
#pragma once

#include "base/fold.hpp"

namespace tutti {

FoldFn sum_kernel_for(DType type);
FoldFn prod_kernel_for(DType type);
FoldFn min_kernel_for(DType type);
FoldFn max_kernel_for(DType type);

}  // namespace tutti

/// A function exported to Highway, as compiled for the best target of this processor. Highway asks for AES beside
/// SSE4.2 and has no entry for a processor without; our kernels do not use it.
#define TUTTI_DISPATCH(function) \
  ((hwy::SupportedTargets() & HWY_TARGETS) != 0 ? HWY_DYNAMIC_DISPATCH(function) : HWY_STATIC_DISPATCH(function))
