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
using F16 = Small<uint16_t, half_to_float, float_to_half>;
using Bf16 = Small<uint16_t, bf16_to_float, float_to_upper_half>;
#else
TUTTI_DEVICE float half_to_float(uint16_t bits) { return f16_to_float(bits); }
using F16 = Small<uint16_t, f16_to_float, float_to_f16>;
using Bf16 = Small<uint16_t, bf16_to_float, float_to_bf16>;
#endif

// Floats of 1 byte, by instructions that all GPUs have, without branches: a pack has 16 of them, and branches are what
// takes a compiler long.

/// The upper byte of the f16 of this value.
TUTTI_DEVICE float bf8_to_float(uint8_t bits) { return half_to_float(static_cast<uint16_t>(bits << 8)); }
/// The same places in an f16 have a value that is 256 times smaller.
TUTTI_DEVICE float fp8_to_float(uint8_t bits) {
  const auto half = static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7F) << 7);
  return (bits & 0x7F) == F8E4M3Format::kNan ? float_from_bits(0x7FC00000) : half_to_float(half) * 256.0F;
}
/// Rounds to the nearest, to even: as integers where the format's numbers are normal, else by an addition to a number
/// whose last place is the format's smallest.
template <class Format>
TUTTI_DEVICE uint8_t float_to_byte(float value) {
  const uint32_t bits = float_bits(value), magnitude = bits & 0x7FFFFFFF;
  const uint32_t odd = magnitude >> Format::kShift & 1;
  const uint32_t normal =
      ((magnitude + (1U << (Format::kShift - 1)) - 1 + odd) >> Format::kShift) - (Format::kRebias << Format::kMantissa);
  const uint32_t subnormal =
      float_bits(float_from_bits(magnitude) + float_from_bits(Format::kAlignBits)) - Format::kAlignBits;
  uint32_t small = magnitude >= Format::kSmallestNormal ? normal : subnormal;
  small = small > Format::kLargestFinite ? Format::kOverflow : small;
  small = magnitude >= 0x7F800000 ? Format::kInfinity : small;
  small = magnitude > 0x7F800000 ? Format::kNan : small;
  return static_cast<uint8_t>(bits >> 31 << (Format::kExponent + Format::kMantissa) | small);
}
using F8E4M3 = Small<uint8_t, fp8_to_float, float_to_byte<F8E4M3Format>>;
using F8E5M2 = Small<uint8_t, bf8_to_float, float_to_byte<F8E5M2Format>>;

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
