// TUTTI_REPRODUCIBLE: sums of floats have the bits of one order of folding, whatever runs them. That order, on numbers
// that show each deviation, is written down here once more, with one float at a time.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/convert.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "plan/algorithm.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tutti {
namespace {

/// A type of elements as its bits, and how the canonical order adds two of them.
template <class B, tuttiDataType_t Type, auto Widen, auto Narrow>
struct Format {
  using Bits = B;
  static constexpr tuttiDataType_t kType = Type;
  static auto widen(Bits bits) { return Widen(bits); }
  static Bits narrow(double value) { return Narrow(static_cast<decltype(Widen(Bits{}))>(value)); }
  static Bits add(Bits a, Bits b) { return Narrow(Widen(a) + Widen(b)); }
};
using F32 = Format<uint32_t, tuttiFloat32, std::bit_cast<float, uint32_t>, std::bit_cast<uint32_t, float>>;
using F64 = Format<uint64_t, tuttiFloat64, std::bit_cast<double, uint64_t>, std::bit_cast<uint64_t, double>>;
using F16 = Format<uint16_t, tuttiFloat16, f16_to_float, float_to_f16>;
using BF16 = Format<uint16_t, tuttiBfloat16, bf16_to_float, float_to_bf16>;
using F8 = Format<uint8_t, tuttiFloat8e5m2, f8e5m2_to_float, float_to_f8e5m2>;

/// Huge ones that cancel, ones that are lost beside them, subnormals, infinities (rarely: they hide the rest).
template <class F>
typename F::Bits element(int rank, size_t i) {
  const uint64_t h = mix(i * 64 + static_cast<uint64_t>(rank) + 1);
  const double sign = (h & 1) != 0 ? -1 : 1;
  const double tiny = std::is_same_v<F, F64> ? 5e-324 : std::is_same_v<F, F16> ? 6e-8 : 1e-45;
  switch (h / 2 % 8) {
    case 0:
      return F::narrow(sign * (sizeof(typename F::Bits) < 4 ? 3000.0 : 1e30));
    case 1:
      return F::narrow(sign * tiny * static_cast<double>(h / 16 % 9));
    case 2:
      return F::narrow(h / 16 % 40 == 0 ? sign * std::numeric_limits<double>::infinity() : sign);
    default:
      return F::narrow(sign * static_cast<double>(h / 16 % 1000) / 7);
  }
}

/// The canonical order: with e = n − 2^⌊log2 n⌋ the ranks below 2e are folded in pairs; then a perfect binary tree.
template <class F>
typename F::Bits canonical(std::vector<typename F::Bits> values) {
  const size_t m = std::bit_floor(values.size()), e = values.size() - m;
  for (size_t leaf = 0; leaf < m; ++leaf) {
    values[leaf] = leaf < e ? F::add(values[2 * leaf], values[2 * leaf + 1]) : values[leaf + e];
  }
  for (size_t left = m; left > 1; left /= 2) {
    for (size_t i = 0; i < left / 2; ++i) values[i] = F::add(values[2 * i], values[2 * i + 1]);
  }
  return values[0];
}

/// A program compiled with -ffast-math runs its threads like this.
struct FastMath {
#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  FastMath() { _mm_setcsr(saved | 0x8040); }  // subnormal results and operands become zero
  ~FastMath() {
    EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u) << "the library left it changed";
    _mm_setcsr(saved);
  }
#endif
};

template <class F>
void expect_bits(Collective collective, int n, int rank, tuttiComm_t comm, size_t count) {
  using Bits = typename F::Bits;
  const int root = collective == Collective::Reduce ? n / 2 : 0;  // ranks are counted from the root
  const bool scatters = collective == Collective::ReduceScatter;
  const size_t total = scatters ? count * static_cast<size_t>(n) : count;
  std::vector<Bits> in(total), out(count);
  for (size_t i = 0; i < total; ++i) in[i] = element<F>(rank, i);
  tuttiResult_t result;
  {
    const FastMath fast;
    result = scatters ? tuttiReduceScatter(in.data(), out.data(), count, F::kType, tuttiSum, comm, nullptr)
             : collective == Collective::Reduce
                 ? tuttiReduce(in.data(), out.data(), count, F::kType, tuttiSum, root, comm, nullptr)
                 : tuttiAllReduce(in.data(), out.data(), count, F::kType, tuttiSum, comm, nullptr);
  }
  ASSERT_EQ(result, tuttiSuccess) << tuttiGetLastError();
  if (collective == Collective::Reduce && rank != root) return;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Bits> values;
    for (int r = 0; r < n; ++r) {
      values.push_back(element<F>((root + r) % n, scatters ? static_cast<size_t>(rank) * count + i : i));
    }
    const Bits wanted = canonical<F>(values);
    const bool both_nan = std::isnan(F::widen(wanted)) && std::isnan(F::widen(out[i]));  // payloads are not promised
    wrong += wanted == out[i] || both_nan ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0u) << "of " << count << ", type " << F::kType;
}

/// Every type, short and long, on one communicator of n threads.
void expect_canonical_bits(Collective collective, int n) {
  with_ranks(n, [&](int rank, tuttiComm_t comm) {
    for (const size_t count : {size_t{1}, size_t{37}, size_t{5000}}) {
      expect_bits<F32>(collective, n, rank, comm, count);
      expect_bits<F64>(collective, n, rank, comm, count);
      expect_bits<F16>(collective, n, rank, comm, count);
      expect_bits<BF16>(collective, n, rank, comm, count);
      expect_bits<F8>(collective, n, rank, comm, count);
    }
  });
}

class Reproducible : public testing::TestWithParam<Collective> {
 protected:
  const test::ScopedEnv reproducible_{"TUTTI_REPRODUCIBLE", "1"};
};

TEST_P(Reproducible, HasTheSameBitsByEveryAlgorithmAndMessage) {
  int algorithms = 0;
  for (const plan::Algorithm* algorithm : plan::algorithms_of(GetParam())) {
    if (!algorithm->canonical) continue;
    ++algorithms;
    const test::ScopedEnv forced("TUTTI_ALGO", fmt::format("{}:{}", name_of(GetParam()), algorithm->name));
    for (const char* message : {"8K", "256K"}) {
      const test::ScopedEnv window("TUTTI_MESSAGE", message);
      for (const int n : {2, 3, 5, 6, 7, 8, 12, 16}) {
        SCOPED_TRACE(fmt::format("{}, n = {}, messages of {}", algorithm->name, n, message));
        expect_canonical_bits(GetParam(), n);
      }
    }
  }
  EXPECT_GE(algorithms, 3);
}

TEST_P(Reproducible, HasTheSameBitsByItsOwnChoiceOverTcp) {
  const test::ScopedEnv transport("TUTTI_TRANSPORT", "tcp");
  for (const int n : {3, 6}) expect_canonical_bits(GetParam(), n);
}

INSTANTIATE_TEST_SUITE_P(Sums, Reproducible,
                         testing::Values(Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce),
                         [](const auto& test) { return name_of(test.param); });

TEST(ReproducibleMode, RefusesAnAlgorithmOfAnotherOrder) {
  const test::ScopedEnv reproducible("TUTTI_REPRODUCIBLE", "1"), forced("TUTTI_ALGO", "all_reduce:ring");
  tuttiComm_t comms[2];
  EXPECT_EQ(tuttiCommInitAll(comms, 2), tuttiUnsupported);
  const std::string text = tuttiGetLastError();
  EXPECT_NE(text.find("ring TUTTI_REPRODUCIBLE: it folds in another order"), std::string::npos) << text;
}

TEST(ReproducibleMode, IsNeededForTheseBits) {
  const test::ScopedEnv forced("TUTTI_ALGO", "all_reduce:ring");
  size_t different = 0;
  with_ranks(8, [&](int rank, tuttiComm_t comm) {
    std::vector<uint32_t> in(1500), out(1500);
    for (size_t i = 0; i < in.size(); ++i) in[i] = element<F32>(rank, i);
    ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), in.size(), tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    if (rank != 0) return;
    for (size_t i = 0; i < in.size(); ++i) {
      std::vector<uint32_t> values;
      for (int r = 0; r < 8; ++r) values.push_back(element<F32>(r, i));
      different += canonical<F32>(values) == out[i] ? 0 : 1;
    }
  });
  EXPECT_GT(different, 100u) << "numbers that any order adds alike prove nothing";
}

}  // namespace
}  // namespace tutti
