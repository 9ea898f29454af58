// Scalar conversions between f32 and the smaller floats, for the host and for device code.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/hd.hpp"

namespace tutti {

TUTTI_HD inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

TUTTI_HD inline float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// A float with a sign, `Exponent` and `Mantissa` bits. `LargestFinite`: encoding of the largest magnitude; `Nan`: of a
/// NaN; `Overflow`: of values that are too large; `Infinity`: of infinities (the largest finite value if there are
/// none).
template <int Exponent, int Mantissa, uint32_t LargestFinite, uint32_t Overflow, uint32_t Infinity, uint32_t Nan>
struct SmallFloat {
  static constexpr int kExponent = Exponent, kMantissa = Mantissa;
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr int kShift = 23 - Mantissa;  // mantissa bits that f32 has beyond this format
  static constexpr uint32_t kMagnitude = (1u << (Exponent + Mantissa)) - 1;
  static constexpr uint32_t kLargestFinite = LargestFinite, kOverflow = Overflow, kInfinity = Infinity, kNan = Nan;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias);      // between the two exponents
  static constexpr uint32_t kSmallestNormal = (kRebias + 1) << 23;             // as f32 bits
  static constexpr uint32_t kUnitBits = (kRebias + 1 - Mantissa) << 23;        // f32 bits of the smallest subnormal
  static constexpr uint32_t kAlignBits = (kRebias + 1 + 23 - Mantissa) << 23;  // f32 whose last place is that unit

  /// Exact.
  TUTTI_HD static float widen(uint32_t bits) {
    const uint32_t sign = (bits & (kMagnitude + 1)) << (31 - Exponent - Mantissa), magnitude = bits & kMagnitude;
    if (magnitude > kLargestFinite) return float_from_bits(sign | (magnitude == kInfinity ? 0x7F800000u : 0x7FC00000u));
    if (magnitude >> Mantissa == 0) {
      return float_from_bits(sign | float_bits(static_cast<float>(magnitude) * float_from_bits(kUnitBits)));
    }
    return float_from_bits(sign | ((magnitude << kShift) + (kRebias << 23)));
  }

  /// To nearest even, in integers alone: rounding mode and flush-to-zero do not matter.
  TUTTI_HD static uint32_t narrow(float value) {
    const uint32_t bits = float_bits(value), magnitude = bits & 0x7FFFFFFFu;
    const uint32_t sign = (bits >> 31) << (Exponent + Mantissa);
    if (magnitude > 0x7F800000u) return sign | kNan;
    if (magnitude == 0x7F800000u) return sign | kInfinity;
    uint32_t small;
    if (magnitude >= kSmallestNormal) {
      small = shift_to_even(magnitude, kShift) - (kRebias << Mantissa);
    } else {
      const uint32_t shift = kShift + (kSmallestNormal >> 23) - (magnitude >> 23);
      small = shift > 24 + 1 ? 0 : shift_to_even((magnitude & 0x7FFFFFu) | 0x800000u, shift);
    }
    return sign | (small > kLargestFinite ? kOverflow : small);
  }

 private:
  TUTTI_HD static uint32_t shift_to_even(uint32_t value, uint32_t shift) {
    return (value + ((1u << (shift - 1)) - 1) + ((value >> shift) & 1)) >> shift;
  }
};

using F16Format = SmallFloat<5, 10, 0x7BFF, 0x7C00, 0x7C00, 0x7E00>;
using F8E5M2Format = SmallFloat<5, 2, 0x7B, 0x7B, 0x7C, 0x7E>;  // OCP FP8: IEEE-like; overflow saturates
using F8E4M3Format = SmallFloat<4, 3, 0x7E, 0x7E, 0x7E, 0x7F>;  // OCP FP8 "fn": no infinity, one NaN; saturates

TUTTI_HD inline float f16_to_float(uint16_t bits) { return F16Format::widen(bits); }
TUTTI_HD inline uint16_t float_to_f16(float value) { return static_cast<uint16_t>(F16Format::narrow(value)); }
TUTTI_HD inline float f8e5m2_to_float(uint8_t bits) { return F8E5M2Format::widen(bits); }
TUTTI_HD inline uint8_t float_to_f8e5m2(float value) { return static_cast<uint8_t>(F8E5M2Format::narrow(value)); }
TUTTI_HD inline float f8e4m3_to_float(uint8_t bits) { return F8E4M3Format::widen(bits); }
TUTTI_HD inline uint8_t float_to_f8e4m3(float value) { return static_cast<uint8_t>(F8E4M3Format::narrow(value)); }

/// bf16 is the upper half of an f32.
TUTTI_HD inline float bf16_to_float(uint16_t bits) { return float_from_bits(static_cast<uint32_t>(bits) << 16); }
TUTTI_HD inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace tutti
