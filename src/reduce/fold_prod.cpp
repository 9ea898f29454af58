// Kernels of Prod.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_prod.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
FoldFn prod_kernel(DType type) { return kernel_of<Multiply>(type); }
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
HWY_EXPORT(prod_kernel);

template <>
FoldFn kernel_for<Op::Prod>(DType type) {
  return TUTTI_DISPATCH(prod_kernel)(type);
}
}  // namespace tutti
#endif
