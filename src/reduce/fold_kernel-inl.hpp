// The kernels of the operator TUTTI_FOLDED, each of whose files is nothing but this. Operators are compiled apart, so
// that a build may compile them at once.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_kernel-inl.hpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

// NOLINTBEGIN(misc-definitions-in-headers): each operator has one file, which includes this one
HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
namespace {

FoldFn kernel_of_this(DType type) { return Kernels<Op::TUTTI_FOLDED>::of(type); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
namespace {
HWY_EXPORT(kernel_of_this);
}  // namespace

template <>
FoldFn kernel_for<Op::TUTTI_FOLDED>(DType type) {
  return TUTTI_DISPATCH(kernel_of_this)(type);
}

}  // namespace tutti
#endif
// NOLINTEND(misc-definitions-in-headers)
