// Kernels of Sum, Avg and PreMulSum.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_sum.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct Sum {
  static constexpr bool kIsSum = true, kOrders = false;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

FoldFn sum_kernel(DType type) { return kernel_of<Sum>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
HWY_EXPORT(sum_kernel);

template <>
FoldFn kernel_for<Op::Sum>(DType type) {
  return TUTTI_DISPATCH(sum_kernel)(type);
}

template <>
FoldFn kernel_for<Op::Avg>(DType type) {
  return TUTTI_DISPATCH(sum_kernel)(type);
}

template <>
FoldFn kernel_for<Op::PreMulSum>(DType type) {
  return TUTTI_DISPATCH(sum_kernel)(type);
}
}  // namespace tutti
#endif
