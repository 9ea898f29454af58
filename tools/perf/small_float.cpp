#include "tools/perf/small_float.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tutti::tools {
namespace {

constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;  // of a double

}  // namespace

uint64_t encode(double value, FloatFormat format) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = (bits >> 63) << (format.exponent_bits + format.mantissa_bits);
  if (bits << 1 == 0) return sign;
  // |value| = significand · 2^(stored - 1075)
  const int stored = std::max(1, static_cast<int>(bits >> 52 & 0x7ff));
  const uint64_t significand = (bits & kMantissa) | (bits << 1 >> 53 != 0 ? kMantissa + 1 : 0);
  // The unit of the last place: that of the value's own binade, but not below that of the smallest normal numbers.
  const int binade = std::max(stored - 1023, format.lowest_exponent());
  const int dropped = std::min(63, binade - format.mantissa_bits - (stored - 1075));
  const uint64_t below = significand & ((uint64_t{1} << dropped) - 1), half = (uint64_t{1} << dropped) >> 1;
  const uint64_t down = significand >> dropped;
  const bool up = dropped > 0 && (below > half || (below == half && (down & 1) != 0));  // ties to even
  // Numbers of the format follow each other as their bits do, so a carry out of the mantissa raises the exponent.
  const auto base = static_cast<uint64_t>(binade - format.lowest_exponent()) << format.mantissa_bits;
  return sign | (base + down + static_cast<uint64_t>(up));
}

double decode(uint64_t bits, FloatFormat format) {
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const auto top = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & top;
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1) != 0;
  const bool all_ones = mantissa == (uint64_t{1} << format.mantissa_bits) - 1;
  double size = 0;
  if (exponent == top && (format.has_infinity || all_ones)) {
    const bool infinite = format.has_infinity && mantissa == 0;
    size = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent != 0) {  // 1.mantissa · 2^(exponent - bias), put together as a double
    const int biased = exponent - format.bias() + 1023;
    const auto stored = static_cast<uint64_t>(biased);
    size = std::bit_cast<double>(stored << 52 | mantissa << (52 - format.mantissa_bits));
  } else if (mantissa != 0) {
    size = std::ldexp(static_cast<double>(mantissa), format.lowest_exponent() - format.mantissa_bits);
  }
  return negative ? -size : size;
}

uint64_t nan_of(FloatFormat format) {
  const uint64_t all_ones = (uint64_t{1} << (format.exponent_bits + format.mantissa_bits)) - 1;
  return format.has_infinity ? all_ones - ((uint64_t{1} << (format.mantissa_bits - 1)) - 1) : all_ones;
}

std::vector<DType> small_floats() {
  std::vector<DType> small;
  for (int i = 0; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    if (is_float(type) && size_of(type) < sizeof(float)) small.push_back(type);
  }
  return small;
}

}  // namespace tutti::tools
