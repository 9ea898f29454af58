// Division by a small whole number, with the bits of the processor's own division but without a call: a call in the
// midst of a kernel costs registers everywhere.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/hd.hpp"
#include "exec/cuda/device.hpp"

namespace tutti::exec::cuda {

/// x / n, correctly rounded.
TUTTI_DEVICE double divided(double x, uint32_t n) {
  if (!(x - x == 0)) return x;  // infinite, or no number
  const double by = n;
  double inverse = ptx::reciprocal_estimate(by);  // 20 bits, then 40, then all but the last
  inverse = ptx::fused(inverse, ptx::fused(-by, inverse, 1), inverse);
  inverse = ptx::fused(inverse, ptx::fused(-by, inverse, 1), inverse);
  double quotient = x * inverse;
  double rest = ptx::fused(-quotient, by, x);  // exact
  quotient = ptx::fused(rest, inverse, quotient);
  if (quotient > 0x1p-1000 || quotient < -0x1p-1000) return quotient;
  // Where numbers lie at a fixed distance, the quotient may lie between two of them: the even one is right then.
  constexpr double kDistance = 0x1p-1074;
  rest = ptx::fused(-quotient, by, x);
  const double twice = rest < 0 ? -2 * rest : 2 * rest, apart = by * kDistance;
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &quotient, sizeof bits);
  if (quotient < 0x1p-1021 && quotient > -0x1p-1021 && (twice > apart || (twice == apart && (bits & 1) != 0))) {
    quotient += rest < 0 ? -kDistance : kDistance;
  }
  return quotient == 0 ? x * 0.0 : quotient;  // keeps the sign
}

/// Two roundings, the first to twice as many digits and two more, are as good as one.
TUTTI_DEVICE float divided(float x, uint32_t n) { return static_cast<float>(divided(static_cast<double>(x), n)); }

TUTTI_DEVICE uint64_t divided(uint64_t x, uint32_t n) {
  uint64_t rest = (x >> 32) % n;
  uint64_t quotient = uint64_t{static_cast<uint32_t>(x >> 32) / n} << 32;
  TUTTI_HD_ROLLED
  for (int bit = 31; bit >= 0; --bit) {
    rest = rest << 1 | (x >> bit & 1);
    if (rest < n) continue;
    rest -= n;
    quotient |= uint64_t{1} << bit;
  }
  return quotient;
}

/// Towards zero.
template <class T>
requires std::is_integral_v<T> TUTTI_DEVICE T divided(T x, uint32_t n) {
  using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if constexpr (std::is_signed_v<T>) {
    const auto wide = static_cast<std::make_signed_t<Unsigned>>(x);
    const Unsigned size = wide < 0 ? 0 - static_cast<Unsigned>(wide) : static_cast<Unsigned>(wide);
    const Unsigned quotient = divided(size, n);
    return static_cast<T>(wide < 0 ? 0 - quotient : quotient);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<T>(divided(static_cast<uint64_t>(x), n));
  } else {
    return static_cast<T>(static_cast<uint32_t>(x) / n);
  }
}

}  // namespace tutti::exec::cuda
