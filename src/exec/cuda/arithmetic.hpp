// Element types and operators as kernels compute them, with the bits of src/reduce.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/device.hpp"
#include "reduce/convert.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// The arithmetic of a type: stored as Stored, computed as Value.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static constexpr bool kRounds = false;
  TUTTI_DEVICE static Value widen(Stored x) { return x; }
  TUTTI_DEVICE static Stored narrow(Value x) { return x; }
};
template <class T, float (*Widen)(T), T (*Narrow)(float)>
struct Small {
  using Stored = T;
  using Value = float;
  static constexpr bool kRounds = true;
  TUTTI_DEVICE static Value widen(Stored x) { return Widen(x); }
  TUTTI_DEVICE static Stored narrow(Value x) { return Narrow(x); }
};
#if defined(__CUDACC__)
// The processor's own conversions: the same bits, but for those of a NaN.
TUTTI_DEVICE float half_to_float(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
TUTTI_DEVICE uint16_t float_to_half(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
TUTTI_DEVICE uint16_t float_to_upper_half(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
TUTTI_DEVICE float wide_f8e4m3(uint8_t bits) { return F8E4M3Format::widen_by_product(bits); }
TUTTI_DEVICE float wide_f8e5m2(uint8_t bits) { return F8E5M2Format::widen_by_product(bits); }
using F16 = Small<uint16_t, half_to_float, float_to_half>;
using Bf16 = Small<uint16_t, bf16_to_float, float_to_upper_half>;
using F8E4M3 = Small<uint8_t, wide_f8e4m3, float_to_f8e4m3>;
using F8E5M2 = Small<uint8_t, wide_f8e5m2, float_to_f8e5m2>;
#else
using F16 = Small<uint16_t, f16_to_float, float_to_f16>;
using Bf16 = Small<uint16_t, bf16_to_float, float_to_bf16>;
using F8E4M3 = Small<uint8_t, f8e4m3_to_float, float_to_f8e4m3>;
using F8E5M2 = Small<uint8_t, f8e5m2_to_float, float_to_f8e5m2>;
#endif

/// One node of a fold; `a` comes earlier. Integers wrap; a NaN stays one.
template <class V, Op kOp>
TUTTI_DEVICE V combine(V a, V b) {
  if constexpr (kOp == Op::Min) {
    return a == a ? (a < b ? a : b) : a;
  } else if constexpr (kOp == Op::Max) {
    return a == a ? (a > b ? a : b) : a;
  } else if constexpr (kOp == Op::BitAnd) {
    return static_cast<V>(a & b);
  } else if constexpr (kOp == Op::BitOr) {
    return static_cast<V>(a | b);
  } else if constexpr (kOp == Op::BitXor) {
    return static_cast<V>(a ^ b);
  } else if constexpr (std::is_floating_point_v<V>) {
    static_assert(kOp == Op::Sum || kOp == Op::Prod, "an operator without arithmetic");
    return kOp == Op::Prod ? a * b : a + b;
  } else {
    static_assert(kOp == Op::Sum || kOp == Op::Prod, "an operator without arithmetic");
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<V>(kOp == Op::Prod ? x * y : x + y);
  }
}

}  // namespace tutti::exec::cuda
