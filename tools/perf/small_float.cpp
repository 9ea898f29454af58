#include "tools/perf/small_float.hpp"

#include <cmath>
#include <limits>

namespace tutti::tools {

FloatFormat format_of(DType type) {
  switch (type) {
    case DType::F16:
      return {5, 10, true};
    case DType::BF16:
      return {8, 7, true};
    case DType::F8E4M3:
      return {4, 3, false};
    case DType::F8E5M2:
      return {5, 2, true};
    case DType::F64:
      return {11, 52, true};
    default:
      return {8, 23, true};
  }
}

uint64_t encode(double value, FloatFormat format) {
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.exponent_bits + format.mantissa_bits) : 0;
  const double size = std::fabs(value);
  if (size == 0) return sign;
  // The unit of the last place: that of the value's own binade, but not below that of the smallest normal numbers.
  int exponent = 0;
  std::frexp(size, &exponent);  // size = [0.5, 1) · 2^exponent
  const int binade = std::max(exponent - 1, format.lowest_exponent());
  const double units = std::nearbyint(std::ldexp(size, format.mantissa_bits - binade));  // ties to even
  const auto mantissa = static_cast<uint64_t>(units);
  // Numbers of the format follow each other as their bits do, so a carry out of the mantissa raises the exponent.
  const auto base = static_cast<uint64_t>(binade - format.lowest_exponent()) << format.mantissa_bits;
  return sign | (base + mantissa);
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
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<double>(mantissa), format.lowest_exponent() - format.mantissa_bits);
  } else {
    const auto whole = static_cast<double>(mantissa + (uint64_t{1} << format.mantissa_bits));
    size = std::ldexp(whole, exponent - format.bias() - format.mantissa_bits);
  }
  return negative ? -size : size;
}

}  // namespace tutti::tools
