// Sums of 16- and 8-bit floats in the default mode: accumulated in f32. One shot and two shot round once.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.hpp"
#include "support/canonical.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"

namespace tutti {
namespace {

/// Values of both signs within a factor of 64: their sums need more digits than the type has.
template <class F>
typename F::Bits value(int rank, size_t i) {
  const uint64_t h = mix(i * 64 + static_cast<uint64_t>(rank) + 77);
  const double size = std::ldexp(1 + static_cast<double>(h % 512) / 512, static_cast<int>(h / 512 % 6) - 3);
  return F::narrow((h >> 20) % 3 == 0 ? -size : size);
}

/// The number of elements of an all-reduce among n threads that differ from the exact sum by more than n additions in
/// f32 and one rounding allow.
template <class F>
size_t off(int n, size_t count) {
  size_t off = 0;
  with_ranks(n, [&](int rank, tuttiComm_t comm) {
    std::vector<typename F::Bits> in(count), out(count);
    for (size_t i = 0; i < count; ++i) in[i] = value<F>(rank, i);
    ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, F::kType, tuttiSum, comm, nullptr), tuttiSuccess);
    if (rank != 0) return;
    for (size_t i = 0; i < count; ++i) {
      double exact = 0, magnitude = 0;
      for (int r = 0; r < n; ++r) {
        const double x = F::widen(value<F>(r, i));
        exact += x;
        magnitude += std::abs(x);
      }
      const double slack = (n - 1) * std::ldexp(magnitude, -24);
      const double least = F::widen(F::narrow(exact - slack)), most = F::widen(F::narrow(exact + slack));
      const double got = F::widen(out[i]);
      off += least <= got && got <= most ? 0 : 1;
    }
  });
  return off;
}

template <class F>
class NarrowSums : public testing::Test {};
using Formats = testing::Types<test::F16, test::BF16, test::F8, test::F8E4M3>;
TYPED_TEST_SUITE(NarrowSums, Formats);

TYPED_TEST(NarrowSums, AreTheExactSumRoundedOnceByOneShotAndTwoShot) {
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    const test::ScopedEnv forced("TUTTI_ALGO", fmt::format("all_reduce:{}", algorithm));
    for (const int n : {2, 3, 5, 8, 16}) EXPECT_EQ(off<TypeParam>(n, 3001), 0u) << algorithm << ", n = " << n;
  }
}

TYPED_TEST(NarrowSums, AreNotByAnAlgorithmThatRoundsAtEveryHop) {
  const test::ScopedEnv forced("TUTTI_ALGO", "all_reduce:ring");
  EXPECT_GT(off<TypeParam>(8, 3001), 100u) << "values that any rounding gets right prove nothing";
}

}  // namespace
}  // namespace tutti
