#include "reduce/fold.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "reduce/simd_targets.hpp"

#include "fold_reference.hpp"
#include "hwy/targets.h"
#include "reduce/float_environment.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

using reference::Number;

/// Runs `body` once for each instruction set of the kernels that this processor has, as if it were the best one; and
/// once as if Highway supported none.
template <class Body>
void for_each_target(Body body) {
  auto targets = hwy::SupportedTargets() & HWY_TARGETS;
  for (bool any = true; any; targets &= targets - 1) {
    any = targets != 0;
    hwy::SetSupportedTargetsForTest(any ? targets : int64_t{HWY_SCALAR});
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(std::string("best target ") + hwy::TargetName(targets & -targets));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

/// A buffer with a guard on both sides, at any offset from a cache line.
class Guarded {
 public:
  Guarded(size_t bytes, size_t offset) : bytes_(bytes), memory_(bytes + 2 * kGuard + 64, kCanary) {
    begin_ = kGuard + offset + (64 - reinterpret_cast<uintptr_t>(memory_.data() + kGuard) % 64) % 64 % 64;
    while (begin_ + bytes_ + kGuard > memory_.size()) memory_.push_back(kCanary);
  }
  std::byte* data() { return memory_.data() + begin_; }
  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && memory_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 80;
  static constexpr std::byte kCanary{0xC5};
  size_t bytes_, begin_ = 0;
  std::vector<std::byte> memory_;
};

/// Mostly small whole numbers, and some random bits, including NaN, infinities and subnormals.
void fill(DType type, std::byte* to, uint64_t count, std::mt19937& random) {
  for (uint64_t i = 0; i < count; ++i, to += size_of(type)) {
    uint64_t bits = (uint64_t{random()} << 32) | random();
    const float small = static_cast<float>(static_cast<int>(random() % 9) - 4);
    if (random() % 4 != 0) {
      bits = is_float(type) ? tools::encode(small, tools::format_of(type))
                            : static_cast<uint64_t>(static_cast<int64_t>(small));
    }
    memcpy(to, &bits, size_of(type));
  }
}

bool equal(const Number& a, const Number& b) {
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  return a.real == b.real && std::signbit(a.real) == std::signbit(b.real) && a.whole == b.whole;
}

/// The placement of a call's buffers.
struct Placement {
  size_t offset;  // of every buffer from a cache line, in bytes
  int in_place;   // the source that is also the destination, from the back; −1: none
  bool dst, dst2, stream;
};

constexpr Placement kPlacements[] = {
    {0, -1, true, false, false}, {0, -1, true, true, true},  {8, -1, true, false, true}, {3, -1, true, true, false},
    {0, 0, true, true, false},   {16, 0, true, false, true}, {1, 0, true, false, true},  {5, -1, false, true, true},
};

class Fold : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DType type() const { return static_cast<DType>(std::get<0>(GetParam())); }
  Op op() const { return static_cast<Op>(std::get<1>(GetParam())); }
  size_t size() const { return size_of(type()); }

  void expect_elements(const std::vector<Number>& expected, const std::byte* actual, const char* which) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const Number n = reference::decode(type(), actual + i * size());
      ASSERT_TRUE(equal(n, expected[i])) << which << " element " << i << ": " << n.real << " / "
                                         << static_cast<int64_t>(n.whole) << " instead of " << expected[i].real << " / "
                                         << static_cast<int64_t>(expected[i].whole);
    }
  }

  /// Runs `call`, whose sources are laid out already, with its buffers moved to `placement`.
  void run(FoldCall call, const std::vector<Number>& expected, const Placement& placement) {
    const size_t bytes = call.count * size();
    std::vector<Guarded> buffers;
    std::vector<const std::byte*> sources;
    buffers.reserve(call.source_count);
    for (uint32_t j = 0; j < call.source_count; ++j) {
      buffers.emplace_back(bytes, (placement.offset + (j % 3) * size()) % 64);
      std::copy_n(call.sources[j], bytes, buffers.back().data());
      sources.push_back(buffers.back().data());
    }
    Guarded out(bytes, placement.offset), out2(bytes, 64 - placement.offset - size());
    call.sources = sources.data();
    call.stream = placement.stream;
    call.dst = placement.in_place >= 0 ? buffers.back().data() : placement.dst ? out.data() : nullptr;
    call.dst2 = placement.dst2 ? out2.data() : nullptr;
    fold_function(type(), op())(call);
    if (call.dst != nullptr) expect_elements(expected, call.dst, "dst");
    if (call.dst2 != nullptr) expect_elements(expected, call.dst2, "dst2");
    EXPECT_TRUE(out.guards_intact() && out2.guards_intact() && buffers.back().guards_intact()) << "wrote outside";
  }
};

std::string name_of_case(const testing::TestParamInfo<std::tuple<int, int>>& instance) {
  return std::string(name_of(static_cast<DType>(std::get<0>(instance.param)))) + "_" +
         name_of(static_cast<Op>(std::get<1>(instance.param)));
}

INSTANTIATE_TEST_SUITE_P(All, Fold, testing::Combine(testing::Range(0, kDTypes), testing::Range(0, kOps)),
                         name_of_case);

std::vector<int> numbers_of_small_floats() {
  std::vector<int> numbers;
  for (const DType type : tools::small_floats()) numbers.push_back(static_cast<int>(type));
  return numbers;
}

class FoldOfSmallFloats : public Fold {};
INSTANTIATE_TEST_SUITE_P(All, FoldOfSmallFloats,
                         testing::Combine(testing::ValuesIn(numbers_of_small_floats()), testing::Range(0, kOps)),
                         name_of_case);

TEST_P(Fold, MatchesOneElementAtATime) {
  std::mt19937 random(static_cast<uint32_t>(1 + std::get<0>(GetParam()) * kOps + std::get<1>(GetParam())));
  for (const uint32_t k : {1u, 2u, 3u, 5u, 8u, 17u}) {
    for (const uint64_t count : {0u, 1u, 3u, 31u, 64u, 333u}) {
      std::vector<std::vector<std::byte>> data(k, std::vector<std::byte>(count * size() + 1));
      std::vector<const std::byte*> sources;
      for (auto& source : data) {
        fill(type(), source.data(), count, random);
        sources.push_back(source.data());
      }
      std::byte scale[8];
      fill(type(), scale, 1, random);
      for (int variant = 0; variant < 4; ++variant) {
        FoldCall call{nullptr,
                      nullptr,
                      sources.data(),
                      k,
                      count,
                      variant & 1 ? FoldShape::Tree : FoldShape::Left,
                      false,
                      (variant & 2) != 0,
                      0,
                      -1,
                      nullptr};
        if (op() == Op::Avg) call.divide_by = variant & 1 ? k : 3;
        if (op() == Op::PreMulSum) call.scaled_source = static_cast<int32_t>(random() % k), call.scale = scale;
        const reference::Reference expect(type(), op(), call);
        std::vector<Number> expected;
        for (uint64_t i = 0; i < count; ++i) expected.push_back(expect(i));
        for_each_target([&] {
          for (const Placement& placement : kPlacements) {
            SCOPED_TRACE("k " + std::to_string(k) + ", count " + std::to_string(count) + ", variant " +
                         std::to_string(variant) + ", placement " + std::to_string(&placement - kPlacements));
            if (!HasFailure()) run(call, expected, placement);
          }
        });
      }
    }
  }
}

TEST_P(FoldOfSmallFloats, RoundsEveryEncodingLikeTheScalarConversions) {
  const uint64_t count = uint64_t{1} << (8 * size());
  std::vector<std::byte> all(count * size()), few(count * size()), out(count * size());
  std::mt19937 random(3);
  for (uint64_t i = 0; i < count; ++i) memcpy(&all[i * size()], &i, size());
  fill(type(), few.data(), count, random);
  const std::byte* sources[] = {all.data(), few.data()};
  FoldCall call{out.data(), nullptr, sources, 2, count, FoldShape::Left, false, false, 0, -1, nullptr};
  if (op() == Op::Avg) call.divide_by = 3;
  const reference::Reference expect(type(), op(), call);
  std::vector<Number> expected;
  for (uint64_t i = 0; i < count; ++i) expected.push_back(expect(i));
  for_each_target([&] {
    fold_function(type(), op())(call);
    expect_elements(expected, out.data(), "dst");
  });
}

class FoldOfLongBuffers : public Fold {};
INSTANTIATE_TEST_SUITE_P(Some, FoldOfLongBuffers,
                         testing::Values(std::tuple(static_cast<int>(DType::F32), static_cast<int>(Op::Sum)),
                                         std::tuple(static_cast<int>(DType::BF16), static_cast<int>(Op::Avg)),
                                         std::tuple(static_cast<int>(DType::U8), static_cast<int>(Op::Max))),
                         name_of_case);

TEST_P(FoldOfLongBuffers, MissesNoPage) {
  std::mt19937 random(11);
  const uint64_t count = ((1 << 20) + 40000) / size() + 5;  // a few bytes more than whole groups of pages
  for (const uint32_t k : {2u, 3u}) {
    std::vector<std::vector<std::byte>> data(k, std::vector<std::byte>(count * size()));
    std::vector<const std::byte*> sources;
    for (auto& source : data) {
      fill(type(), source.data(), count, random);
      sources.push_back(source.data());
    }
    FoldCall call{nullptr, nullptr, sources.data(), k, count, FoldShape::Left, false, false, 0, -1, nullptr};
    if (op() == Op::Avg) call.divide_by = k;
    const reference::Reference expect(type(), op(), call);
    std::vector<Number> expected;
    for (uint64_t i = 0; i < count; ++i) expected.push_back(expect(i));
    for_each_target([&] {
      for (const Placement& placement : {kPlacements[1], kPlacements[4], kPlacements[6]}) {
        run(call, expected, placement);
      }
    });
  }
}

std::vector<float> folded(std::vector<float> operands, FoldShape shape) {
  std::vector<const std::byte*> sources;
  for (float& operand : operands) sources.push_back(reinterpret_cast<const std::byte*>(&operand));
  std::vector<float> out(1);
  fold_function(DType::F32, Op::Sum)({reinterpret_cast<std::byte*>(out.data()), nullptr, sources.data(),
                                      static_cast<uint32_t>(sources.size()), 1, shape, false, false, 0, -1, nullptr});
  return out;
}

TEST(FoldOrder, IsVisibleInFloats) {
  const float huge = 1e30f;
  // (((h + 1) + −h) + 1) = 1, but (h + 1) + (−h + 1) = 0
  EXPECT_EQ(folded({huge, 1, -huge, 1}, FoldShape::Left)[0], 1);
  EXPECT_EQ(folded({huge, 1, -huge, 1}, FoldShape::Tree)[0], 0);
  // five operands: the leaves are (0+1), 2, 3, 4, so ((0+1) + 2) + (3+4): here ((1+h) − h) + (1+1) = 2
  EXPECT_EQ(folded({1, huge, -huge, 1, 1}, FoldShape::Tree)[0], 2);
  // six: ((0+1) + (2+3)) + (4+5)
  EXPECT_EQ(folded({huge, 1, 1, -huge, 1, 1}, FoldShape::Tree)[0], 2);
  EXPECT_EQ(folded({1, 1, huge, 1, -huge, 1}, FoldShape::Tree)[0], 0);
}

TEST(FoldRounding, HappensOnceUnlessAskedForAtEveryNode) {
  // bf16 has 8 significant bits: 256 + 1 rounds to 256 at every node, but 256 + 1 + 1 + 1 to 260.
  const uint16_t values[] = {float_to_bf16(256), float_to_bf16(1), float_to_bf16(1), float_to_bf16(1)};
  const std::byte* sources[4];
  for (int j = 0; j < 4; ++j) sources[j] = reinterpret_cast<const std::byte*>(&values[j]);
  uint16_t out = 0;
  FoldCall call{
      reinterpret_cast<std::byte*>(&out), nullptr, sources, 4, 1, FoldShape::Left, false, false, 0, -1, nullptr};
  fold_function(DType::BF16, Op::Sum)(call);
  EXPECT_EQ(bf16_to_float(out), 260);  // 259 is a tie between 258 and 260
  call.round_each = true;
  fold_function(DType::BF16, Op::Sum)(call);
  EXPECT_EQ(bf16_to_float(out), 256);
}

TEST(FoldAverage, TruncatesIntegersTowardZero) {
  const int8_t a[] = {-7, 7, -128, 127}, b[] = {0, 0, 0, 0};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  int8_t out[4];
  const FoldCall call{
      reinterpret_cast<std::byte*>(out), nullptr, sources, 2, 4, FoldShape::Left, false, false, 2, -1, nullptr};
  fold_function(DType::I8, Op::Avg)(call);
  EXPECT_EQ(std::vector<int>(out, out + 4), (std::vector<int>{-3, 3, -64, 63}));
  uint8_t unsigned_out[4];
  FoldCall unsigned_call = call;
  unsigned_call.dst = reinterpret_cast<std::byte*>(unsigned_out);
  fold_function(DType::U8, Op::Avg)(unsigned_call);
  EXPECT_EQ(std::vector<int>(unsigned_out, unsigned_out + 4), (std::vector<int>{124, 3, 64, 63}));
}

TEST(FoldFunction, RefusesUnknownTypesAndOperators) {
  EXPECT_THROW(fold_function(static_cast<DType>(kDTypes), Op::Sum), Error);
  EXPECT_THROW(fold_function(DType::F32, static_cast<Op>(kOps)), Error);
}

TEST(CopyBytes, CopiesToOneOrTwoDestinationsAndNothingElse) {
  std::mt19937 random(5);
  for_each_target([&] {
    for (const size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 5000u, 1100003u}) {
      for (const Placement& placement : kPlacements) {
        Guarded src(bytes, placement.offset), dst(bytes, (placement.offset * 7) % 64), dst2(bytes, 11);
        for (size_t i = 0; i < bytes; ++i) src.data()[i] = static_cast<std::byte>(random());
        std::byte* const to = placement.in_place >= 0 ? src.data() : dst.data();
        const std::vector<std::byte> expected(src.data(), src.data() + bytes);
        copy_bytes(to, placement.dst2 ? dst2.data() : nullptr, src.data(), bytes, placement.stream);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to));
        EXPECT_TRUE(!placement.dst2 || std::equal(expected.begin(), expected.end(), dst2.data()));
        EXPECT_TRUE(src.guards_intact() && dst.guards_intact() && dst2.guards_intact());
      }
    }
  });
}

#if defined(__x86_64__)
TEST(FloatEnvironmentGuard, KeepsSubnormalsAndRestoresTheCallersMode) {
  const uint32_t before = _mm_getcsr();
  const uint32_t flushing = before | 0x8040;  // what a program linked with -ffast-math runs with
  _mm_setcsr(flushing);
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(&tiny), reinterpret_cast<const std::byte*>(&tiny)};
  float out = -1;
  const FoldCall call{
      reinterpret_cast<std::byte*>(&out), nullptr, sources, 2, 1, FoldShape::Left, false, false, 0, -1, nullptr};
  fold_function(DType::F32, Op::Sum)(call);
  const uint32_t without = float_bits(out);
  {
    const FloatEnvironment environment;
    fold_function(DType::F32, Op::Sum)(call);
  }
  const uint32_t after = _mm_getcsr() & ~0x3Fu;
  _mm_setcsr(before);
  EXPECT_EQ(without, 0u);
  EXPECT_EQ(float_bits(out), 2u);
  EXPECT_EQ(after, flushing & ~0x3Fu);
}
#endif

}  // namespace
}  // namespace tutti
