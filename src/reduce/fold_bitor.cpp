// Kernels of BitOr.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_bitor.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct BitwiseOr {
  static constexpr bool kIsSum = false, kOrders = false;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

FoldFn bitor_kernel(DType type) { return bit_kernel_of<BitwiseOr>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
HWY_EXPORT(bitor_kernel);

template <>
FoldFn kernel_for<Op::BitOr>(DType type) {
  return TUTTI_DISPATCH(bitor_kernel)(type);
}
}  // namespace tutti
#endif
