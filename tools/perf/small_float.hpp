// Floating-point numbers in any IEEE-like format, computed bit by bit and independently of the library that they check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::tools {

struct FloatFormat {
  int exponent_bits, mantissa_bits;  // stored ones
  bool has_infinity;                 // f8e4m3: the highest exponent holds numbers, and one NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The largest integer up to which every integer is a number of the format: 2^(mantissa bits + 1), if it goes so far.
  double exact_integers() const {
    const auto all = static_cast<double>(uint64_t{1} << (mantissa_bits + 1));
    const bool last_is_nan = !has_infinity && mantissa_bits == highest_exponent();
    return all <= largest_power() ? all : 2 * largest_power() - (last_is_nan ? 2 : 1);
  }
  /// The largest power of two that is a number of the format, 2^62 at most.
  double largest_power() const { return static_cast<double>(uint64_t{1} << std::min(highest_exponent(), 62)); }
  /// Exponents of the smallest and largest powers of two that are normal numbers.
  int lowest_exponent() const { return 1 - bias(); }
  int highest_exponent() const { return (1 << exponent_bits) - (has_infinity ? 2 : 1) - bias(); }
};

/// The format of a floating-point type.
constexpr FloatFormat format_of(DType type) {
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

/// The nearest number of the format, ties to even, as bits. `value` must be finite and within the format's range.
uint64_t encode(double value, FloatFormat format);

/// The number that these bits mean; NaN and infinities included.
double decode(uint64_t bits, FloatFormat format);

/// The bits of a NaN: the quiet one, where the format tells them apart.
uint64_t nan_of(FloatFormat format);

/// The floating-point types of less than 32 bits.
std::vector<DType> small_floats();

}  // namespace tutti::tools
