// Kernels divide without the processor's instruction: by bits as it does.
#include "exec/cuda/divide.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace tutti::exec::cuda {
namespace {

template <class T>
void expect_same(T x, uint32_t n) {
  const T right = x / static_cast<T>(n), got = divided(x, n);
  if (std::isnan(right)) {
    EXPECT_TRUE(std::isnan(got)) << x << " / " << n;
  } else {
    EXPECT_EQ(got, right) << x << " / " << n;
    EXPECT_EQ(std::signbit(got), std::signbit(right)) << x << " / " << n;
  }
}

template <class T, class Bits>
void compare_floats() {
  std::mt19937_64 random(1);
  using Limits = std::numeric_limits<T>;
  for (const uint32_t n : {2U, 3U, 4U, 5U, 6U, 7U, 10U, 12U, 17U, 24U, 64U, 100U, 1023U, 1024U, 4095U}) {
    for (const T x : {T(0), T(1), Limits::max(), Limits::min(), Limits::denorm_min(), Limits::infinity(),
                      Limits::quiet_NaN(), std::nextafter(Limits::min(), T(0))}) {
      expect_same(x, n);
      expect_same(-x, n);
    }
    for (Bits small = 0; small < 300; ++small) expect_same(std::bit_cast<T>(small), n);  // ties, above all
    for (int i = 0; i < 20000; ++i) expect_same(std::bit_cast<T>(static_cast<Bits>(random())), n);
    // Where the quotients lie among the numbers of fixed distance, and at their edge.
    for (int i = 0; i < 20000; ++i) {
      const Bits bits = static_cast<Bits>(random()) >> 1;
      expect_same(std::bit_cast<T>(static_cast<Bits>(bits % (Bits{16} << (Limits::digits - 1)))), n);
    }
  }
}

TEST(Divided, F64HasTheBitsOfDivision) { compare_floats<double, uint64_t>(); }
TEST(Divided, F32HasTheBitsOfDivision) { compare_floats<float, uint32_t>(); }

template <class T>
void compare_integers() {
  std::mt19937_64 random(2);
  using Limits = std::numeric_limits<T>;
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  for (const uint32_t n : {2U, 3U, 7U, 64U, 1000U, 65535U}) {
    std::vector<T> values = {0, 1, Limits::max(), Limits::min(), static_cast<T>(Limits::max() - 1)};
    for (int i = 0; i < 2000; ++i) values.push_back(static_cast<T>(random()));
    for (const T x : values) EXPECT_EQ(divided(x, n), static_cast<T>(Wide{x} / Wide{n})) << +x << " / " << n;
  }
}

TEST(Divided, IntegersGoTowardsZero) {
  compare_integers<int8_t>();
  compare_integers<uint8_t>();
  compare_integers<int16_t>();
  compare_integers<uint16_t>();
  compare_integers<int32_t>();
  compare_integers<uint32_t>();
  compare_integers<int64_t>();
  compare_integers<uint64_t>();
}

}  // namespace
}  // namespace tutti::exec::cuda
