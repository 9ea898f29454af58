// Declarations shared by fold.cpp and the files with the kernels of one operator each.
#pragma once

#include <cstdint>

#include "reduce/fold.hpp"

namespace tutti {

/// The Highway targets that this processor supports. Computed once: it takes several CPUID instructions, which are slow
/// in a virtual machine.
int64_t supported_targets();

/// The kernel of an operator for a type; null for a value that is no type. Each operator's file defines its own, but
/// averages and scaled sums use that of Sum.
template <Op op>
FoldFn kernel_for(DType type);

#define TUTTI_OPERATOR(name, text, others) \
  template <>                              \
  FoldFn kernel_for<Op::name>(DType type);
TUTTI_OPERATORS(TUTTI_OPERATOR)
TUTTI_OPERATOR(PreMulSum, , )
#undef TUTTI_OPERATOR

}  // namespace tutti

/// A function exported to Highway, compiled for the best target of this processor. Highway requires AES for its SSE4
/// target and has no entry for a processor without it; the kernels here do not use AES.
#define TUTTI_DISPATCH(function) \
  ((tutti::supported_targets() & HWY_TARGETS) != 0 ? HWY_DYNAMIC_DISPATCH(function) : HWY_STATIC_DISPATCH(function))
