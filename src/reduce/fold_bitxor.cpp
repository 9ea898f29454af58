// Kernels of BitXor.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_bitxor.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/fold_engine-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct BitwiseXor {
  static constexpr bool kIsSum = false, kOrders = false;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

FoldFn bitxor_kernel(DType type) { return bit_kernel_of<BitwiseXor>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
HWY_EXPORT(bitxor_kernel);

template <>
FoldFn kernel_for<Op::BitXor>(DType type) {
  return TUTTI_DISPATCH(bitxor_kernel)(type);
}
}  // namespace tutti
#endif
