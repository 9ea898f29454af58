#include "tools/perf/small_float.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tutti::tools {
namespace {

TEST(SmallFloat, EveryFiniteNumberIsItsOwnNearest) {
  for (const DType type : small_floats()) {
    const FloatFormat format = format_of(type);
    int finite = 0;
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * size_of(type)); ++bits) {
      const double value = decode(bits, format);
      if (!std::isfinite(value)) continue;
      ++finite;
      ASSERT_EQ(encode(value, format), bits) << name_of(type);
    }
    const int all = 2 << (format.mantissa_bits + format.exponent_bits);
    EXPECT_EQ(finite, all - (format.has_infinity ? 2 << format.mantissa_bits : 2)) << name_of(type);
  }
}

TEST(SmallFloat, KnowsTheFormatsLimits) {
  EXPECT_EQ(decode(0x7bff, format_of(DType::F16)), 65504);
  EXPECT_EQ(decode(0x3f80, format_of(DType::BF16)), 1);
  EXPECT_EQ(decode(0x7e, format_of(DType::F8E4M3)), 448);
  EXPECT_TRUE(std::isnan(decode(0x7f, format_of(DType::F8E4M3))));
  EXPECT_EQ(decode(0x7b, format_of(DType::F8E5M2)), 57344);
  EXPECT_TRUE(std::isinf(decode(0x7c, format_of(DType::F8E5M2))));
  EXPECT_EQ(decode(0x01, format_of(DType::F8E4M3)), std::ldexp(1, -9));
}

TEST(SmallFloat, HasANaN) {
  EXPECT_EQ(nan_of(format_of(DType::F16)), 0x7E00u);
  EXPECT_EQ(nan_of(format_of(DType::F8E4M3)), 0x7Fu);
  EXPECT_EQ(nan_of(format_of(DType::F64)), 0x7FF8000000000000u);
  for (const DType type : small_floats()) EXPECT_TRUE(std::isnan(decode(nan_of(format_of(type)), format_of(type))));
}

TEST(SmallFloat, OfAFormatThatEndsEarlyKnowsIt) {
  const FloatFormat format{3, 4, true};  // up to 15.5
  EXPECT_EQ(format.exact_integers(), 15);
  EXPECT_EQ(format.largest_power(), 8);
  EXPECT_EQ((FloatFormat{3, 4, false}).exact_integers(), 30) << "31 would be its NaN";
  EXPECT_EQ(decode(encode(15.5, format), format), 15.5);
}

TEST(SmallFloat, RoundsToTheNearestAndTiesToEven) {
  const FloatFormat format = format_of(DType::F8E5M2);  // 1, 1.25, 1.5, 1.75, 2
  EXPECT_EQ(decode(encode(1.1, format), format), 1);
  EXPECT_EQ(decode(encode(1.125, format), format), 1);
  EXPECT_EQ(decode(encode(1.375, format), format), 1.5);
  EXPECT_EQ(decode(encode(-1.9, format), format), -2);
}

TEST(SmallFloat, IsWhatTheMachineHoldsForFloatAndDouble) {
  for (const double value : {1.0, -0.0, 0.1, 1e30, -3.5e-40, 16777217.0}) {
    EXPECT_EQ(encode(value, format_of(DType::F32)), std::bit_cast<uint32_t>(static_cast<float>(value)));
    EXPECT_EQ(encode(value, format_of(DType::F64)), std::bit_cast<uint64_t>(value));
    EXPECT_EQ(decode(std::bit_cast<uint64_t>(value), format_of(DType::F64)), value);
  }
}

TEST(SmallFloat, HoldsEveryIntegerUpToTheLastExactOne) {
  for (const DType type : small_floats()) {
    const FloatFormat format = format_of(type);
    const double last = format.exact_integers();
    for (double i = 0; i <= last; ++i) ASSERT_EQ(decode(encode(i, format), format), i) << name_of(type);
    EXPECT_NE(decode(encode(last + 1, format), format), last + 1) << name_of(type);
  }
}

}  // namespace
}  // namespace tutti::tools
