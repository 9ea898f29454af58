// tutti.h's promises on NaN and zeros in folds, with every algorithm and type.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/format.hpp"
#include "plan/algorithm.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "tools/perf/small_float.hpp"

namespace tutti {
namespace {

constexpr int kRanks = 5;
constexpr size_t kCount = 300;  // full vectors, and a remainder

/// One element's bits as a double, and a double as an element's bits.
double number(const unsigned char* bytes, DType type) {
  if (type == DType::F64) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size_of(type));
  return tools::decode(bits, tools::format_of(type));
}

void put(unsigned char* bytes, DType type, double value) {
  const tools::FloatFormat format = tools::format_of(type);
  const uint64_t bits = std::isnan(value) ? tools::nan_of(format) : tools::encode(value, format);
  std::memcpy(bytes, &bits, size_of(type));
}

/// Element i is a NaN on rank i mod (n + 1), so every (n + 1)-th element has no NaN; other elements of rank r are r +
/// 1.
std::vector<unsigned char> input_of(int rank, DType type) {
  std::vector<unsigned char> in(kCount * size_of(type));
  for (size_t i = 0; i < kCount; ++i) {
    const bool is_nan = i % (kRanks + 1) == static_cast<size_t>(rank);
    put(&in[i * size_of(type)], type, is_nan ? NAN : rank + 1);
  }
  return in;
}

void expect_nan_where_any_rank_has_one(int rank, tuttiComm_t comm, DType type, Op op, const char* algorithm) {
  const auto in = input_of(rank, type);
  std::vector<unsigned char> out(in.size());
  ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), kCount, static_cast<tuttiDataType_t>(type),
                           static_cast<tuttiRedOp_t>(op), comm, nullptr),
            tuttiSuccess)
      << tuttiGetLastError();
  size_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const bool expected = i % (kRanks + 1) != kRanks;
    wrong += std::isnan(number(&out[i * size_of(type)], type)) != expected ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0u) << algorithm << ", " << name_of(type) << ", " << name_of(op) << ", rank " << rank;
}

TEST(NaN, OfAnyRankIsInTheResultOfEveryFold) {
  for (const plan::Algorithm* algorithm : plan::algorithms_of(Collective::AllReduce)) {
    if (!algorithm->allows({Collective::AllReduce, kRanks}) && !plan::needs_groups(*algorithm, kRanks)) continue;
    const test::ScopedEnv groups("TUTTI_GROUPS", "0,0,1,1,1");
    const test::ScopedEnv forced("TUTTI_ALGO", fmt::format("all_reduce:{}", algorithm->name));
    with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
      for (int t = 0; t < kDTypes; ++t) {
        const auto type = static_cast<DType>(t);
        if (!is_float(type)) continue;
        for (const Op op : {Op::Min, Op::Max, Op::Sum, Op::Prod, Op::Avg}) {
          expect_nan_where_any_rank_has_one(rank, comm, type, op, algorithm->name);
        }
      }
    });
  }
}

TEST(NaN, ZerosOfEitherSignGiveNoNaN) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    for (const tuttiRedOp_t op : {tuttiMin, tuttiMax}) {
      const float in = rank == 0 ? -0.0f : 0.0f;
      float out = 1;
      ASSERT_EQ(tuttiAllReduce(&in, &out, 1, tuttiFloat32, op, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(out, 0.0f);  // either: they are equal
    }
  });
}

}  // namespace
}  // namespace tutti
