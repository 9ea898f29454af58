// Kernels convert floats of 1 byte without branches: to the bits of src/reduce.
#include "reduce/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "exec/cuda/arithmetic.hpp"

namespace tutti::exec::cuda {
namespace {

template <class Type, class Format>
void compare_all_bytes() {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float right = Format::widen(bits), got = Type::widen(static_cast<uint8_t>(bits));
    if (std::isnan(right)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(float_bits(got), float_bits(right)) << bits;
    }
  }
}

/// Every sign, exponent and upper half of a mantissa, with what decides a tie below it.
template <class Type, class Format>
void compare_floats() {
  for (const uint32_t low : {0U, 1U, 0x7FFU, 0x800U, 0x801U, 0xFFFU}) {
    uint64_t wrong = 0;
    for (uint32_t high = 0; high < 1U << 20; ++high) {
      const float value = float_from_bits(high << 12 | low);
      if (Type::narrow(value) != static_cast<uint8_t>(Format::narrow(value)) && wrong++ == 0) {
        ADD_FAILURE() << value << ": " << int{Type::narrow(value)} << ", not " << Format::narrow(value);
      }
    }
    EXPECT_EQ(wrong, 0U) << "with the lower bits " << low;
  }
}

TEST(DeviceConvert, WidensFloatsOfOneByteAsTheHostDoes) {
  compare_all_bytes<F8E4M3, F8E4M3Format>();
  compare_all_bytes<F8E5M2, F8E5M2Format>();
}
TEST(DeviceConvert, NarrowsToFloatsOfOneByteAsTheHostDoes) {
  compare_floats<F8E4M3, F8E4M3Format>();
  compare_floats<F8E5M2, F8E5M2Format>();
}

}  // namespace
}  // namespace tutti::exec::cuda
