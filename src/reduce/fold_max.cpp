// Kernels of Max.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_max.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct Maximum {
  static constexpr bool kIsSum = false, kOrders = true;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) return select_or_nan(hn::Gt(a, b), a, b);
    return hn::Max(a, b);
  }
};

FoldFn max_kernel(DType type) { return kernel_of<Maximum>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
HWY_EXPORT(max_kernel);

template <>
FoldFn kernel_for<Op::Max>(DType type) {
  return TUTTI_DISPATCH(max_kernel)(type);
}
}  // namespace tutti
#endif
