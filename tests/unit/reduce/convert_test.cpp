#include "reduce/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tools/perf/small_float.hpp"

namespace tutti {
namespace {

/// A small float described by what IEEE 754 and the OCP FP8 specification say of it, read and written with ldexp.
struct Description {
  const char* name;
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // all-ones exponents mean infinity and NaN; without, only the all-ones encoding is a NaN
  bool saturates;
  float (*widen)(uint32_t);
  uint32_t (*narrow)(float);

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double value_of(uint32_t encoding) const {
    const uint32_t mantissa = encoding & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(encoding >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double sign = (encoding >> (bits() - 1)) != 0 ? -1 : 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (has_infinity && top) {
      return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    }
    if (!has_infinity && top && mantissa == (1u << mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return sign * std::ldexp((1u << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
  }

  double largest() const {
    const int exponent = (1 << exponent_bits) - 1 - (has_infinity ? 1 : 0) - bias();
    return std::ldexp((2 << mantissa_bits) - (has_infinity ? 1 : 2), exponent - mantissa_bits);
  }

  /// The nearest value, ties to even, by scaling to units of the last place.
  double rounded(double value) const {
    if (std::isnan(value)) return value;
    if (std::isinf(value)) return has_infinity ? value : std::copysign(largest(), value);
    const int exponent = value == 0 ? 1 - bias() : std::max(std::ilogb(value), 1 - bias());
    const double unit = std::ldexp(1, exponent - mantissa_bits);
    const double nearest = std::nearbyint(value / unit) * unit;
    if (std::abs(nearest) <= largest()) return std::copysign(nearest, value);
    return std::copysign(saturates ? largest() : std::numeric_limits<double>::infinity(), value);
  }
};

const Description kFormats[] = {
    {"f16", 5, 10, true, false, [](uint32_t b) { return f16_to_float(static_cast<uint16_t>(b)); },
     [](float f) { return uint32_t{float_to_f16(f)}; }},
    {"bf16", 8, 7, true, false, [](uint32_t b) { return bf16_to_float(static_cast<uint16_t>(b)); },
     [](float f) { return uint32_t{float_to_bf16(f)}; }},
    {"f8e4m3", 4, 3, false, true, [](uint32_t b) { return f8e4m3_to_float(static_cast<uint8_t>(b)); },
     [](float f) { return uint32_t{float_to_f8e4m3(f)}; }},
    {"f8e5m2", 5, 2, true, true, [](uint32_t b) { return f8e5m2_to_float(static_cast<uint8_t>(b)); },
     [](float f) { return uint32_t{float_to_f8e5m2(f)}; }},
};

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(ConvertFormats, AreOfAllSmallFloats) { EXPECT_EQ(std::size(kFormats), tools::small_floats().size()); }

class Convert : public testing::TestWithParam<Description> {};
INSTANTIATE_TEST_SUITE_P(Formats, Convert, testing::ValuesIn(kFormats), [](const auto& i) { return i.param.name; });

TEST_P(Convert, WidensEveryEncodingToItsValue) {
  const Description& format = GetParam();
  for (uint32_t encoding = 0; encoding < 1u << format.bits(); ++encoding) {
    EXPECT_TRUE(same(format.widen(encoding), format.value_of(encoding))) << std::hex << encoding;
  }
}

TEST_P(Convert, ComesBackToEveryEncoding) {
  const Description& format = GetParam();
  for (uint32_t encoding = 0; encoding < 1u << format.bits(); ++encoding) {
    const float value = format.widen(encoding);
    const uint32_t back = format.narrow(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(format.widen(back))) << std::hex << encoding;
    } else {
      EXPECT_EQ(back, encoding) << std::hex << encoding;
    }
  }
}

TEST_P(Convert, RoundsTiesToEven) {
  const Description& format = GetParam();
  for (uint32_t encoding = 0; encoding + 1 < 1u << (format.bits() - 1); ++encoding) {
    const float low = format.widen(encoding), high = format.widen(encoding + 1);
    if (!std::isfinite(high) || std::isnan(low)) break;
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    const uint32_t even = encoding + (encoding & 1);
    EXPECT_EQ(format.narrow(middle), even) << std::hex << encoding;
    EXPECT_EQ(format.narrow(std::nextafter(middle, low)), encoding) << std::hex << encoding;
    EXPECT_EQ(format.narrow(std::nextafter(middle, high)), encoding + 1) << std::hex << encoding;
  }
}

TEST_P(Convert, RoundsAnyFloatToTheNearest) {
  const Description& format = GetParam();
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    float value = float_from_bits(static_cast<uint32_t>(random()));
    if (i % 2 == 0)
      value = std::ldexp(static_cast<float>(random() % 65536) - 32768.0f, static_cast<int>(random() % 48) - 38);
    EXPECT_TRUE(same(format.widen(format.narrow(value)), format.rounded(value))) << value;
  }
}

TEST_P(Convert, TreatsOverflowAsTheFormatSays) {
  const Description& format = GetParam();
  const float infinity = std::numeric_limits<float>::infinity(), huge = std::numeric_limits<float>::max();
  const float largest = static_cast<float>(format.largest());
  EXPECT_EQ(format.widen(format.narrow(huge)), format.saturates ? largest : infinity);
  EXPECT_EQ(format.widen(format.narrow(-huge)), format.saturates ? -largest : -infinity);
  EXPECT_EQ(format.widen(format.narrow(infinity)), format.has_infinity ? infinity : largest);
  EXPECT_TRUE(std::isnan(format.widen(format.narrow(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace tutti
