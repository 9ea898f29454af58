#include "tools/perf/pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tools/perf/guarded_buffer.hpp"
#include "tools/perf/small_float.hpp"
#include "tools/perf/values.hpp"

namespace tutti::tools {
namespace {

constexpr int kRanks[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 17, 31, 32, 33, 48, 63, 64};

template <class Body>
void for_every_type_and_op(const Body& body) {
  for (int t = 0; t < kDTypes; ++t) {
    for (int o = 0; o < kOps; ++o) body(static_cast<DType>(t), static_cast<Op>(o));
  }
}

std::string named(DType type, Op op, int ranks) {
  return std::string(name_of(type)) + " " + name_of(op) + ", n = " + std::to_string(ranks);
}

/// Each rank's contribution to the fold: its value, times its scalar if there is one.
std::vector<uint64_t> brought(const Spot& spot, DType type, Op op) {
  std::vector<uint64_t> values;
  for (int rank = 0; rank < spot.ranks; ++rank) {
    values.push_back(folded_value(spot, rank, type, op));
    if (op == Op::PreMulSum) values.back() = fold(values.back(), scalar_value(spot.seed, rank, type), type, Op::Prod);
  }
  return values;
}

/// Folds in one random order and bracketing, rounding to the type at every node: joins two neighbours at a time.
uint64_t folded_somehow(std::vector<uint64_t> values, DType type, Op op, std::mt19937& random) {
  std::shuffle(values.begin(), values.end(), random);
  const int ranks = static_cast<int>(values.size());
  while (values.size() > 1) {
    const size_t at = random() % (values.size() - 1);
    values[at] = fold(values[at], values[at + 1], type, op);
    values.erase(values.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  return op == Op::Avg ? divide(values[0], ranks, type) : values[0];
}

TEST(Pattern, FoldsToTheSameBitsInAnyOrderAndBracketing) {
  std::mt19937 random(7);
  for_every_type_and_op([&](DType type, Op op) {
    for (const int ranks : kRanks) {
      for (uint64_t place = 0; place < 40; ++place) {
        const Spot spot{99, ranks, place};
        const uint64_t expected = fold_of_all(spot, type, op);
        const auto values = brought(spot, type, op);
        for (int order = 0; order < 4; ++order) {
          ASSERT_EQ(folded_somehow(values, type, op, random), expected) << named(type, op, ranks);
        }
      }
    }
  });
}

/// All results of folding `values` in every order and every bracketing.
void fold_all_ways(const std::vector<uint64_t>& values, DType type, Op op, uint64_t expected) {
  if (values.size() == 1) {
    ASSERT_EQ(values[0], expected) << named(type, op, 0);
    return;
  }
  for (size_t a = 0; a < values.size(); ++a) {
    for (size_t b = 0; b < values.size(); ++b) {
      if (a == b) continue;
      std::vector<uint64_t> rest{fold(values[a], values[b], type, op)};
      for (size_t i = 0; i < values.size(); ++i) {
        if (i != a && i != b) rest.push_back(values[i]);
      }
      fold_all_ways(rest, type, op, expected);
    }
  }
}

TEST(Pattern, FoldsToTheSameBitsInEveryOrderOfFourRanks) {
  for_every_type_and_op([&](DType type, Op op) {
    if (op == Op::Avg) return;  // is sum, then a division
    for (uint64_t place = 0; place < 10; ++place) {
      const Spot spot{3, 4, place};
      fold_all_ways(brought(spot, type, op), type, op, fold_of_all(spot, type, op));
    }
  });
}

// Why no order rounds: the absolute values add up to an integer that the type holds, so every partial sum is one too.
TEST(Pattern, FloatSumsStayWithinTheExactIntegersForUpTo64Ranks) {
  for_every_type_and_op([&](DType type, Op op) {
    if (!is_float(type) || op == Op::Prod || chooses(op) || acts_on_bits(op)) return;
    const FloatFormat format = format_of(type);
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (uint64_t place = 0; place < 100; ++place) {
        double total = 0;
        for (const uint64_t bits : brought({5, ranks, place}, type, op)) {
          const double value = decode(bits, format);
          ASSERT_EQ(value, std::nearbyint(value)) << named(type, op, ranks);
          total += std::fabs(value);
        }
        ASSERT_LE(total, format.exact_integers()) << named(type, op, ranks);
      }
    }
  });
}

// A double holds every value of each narrower type, so `fold` and `divide` hide no narrower rounding.
TEST(Pattern, FloatAveragesAreExactWhereTheTypeHoldsTheNumberOfRanks) {
  for (int t = 0; t < kDTypes; ++t) {
    const auto type = static_cast<DType>(t);
    if (!is_float(type)) continue;
    const FloatFormat format = format_of(type);
    for (int ranks = 1; ranks <= std::min(64.0, format.exact_integers()); ++ranks) {
      for (uint64_t place = 0; place < 50; ++place) {
        const Spot spot{5, ranks, place};
        double sum = 0;
        for (const uint64_t bits : brought(spot, type, Op::Avg)) sum += decode(bits, format);
        ASSERT_EQ(decode(fold_of_all(spot, type, Op::Avg), format) * ranks, sum) << named(type, Op::Avg, ranks);
      }
    }
  }
}

// Half of a rank's share of the exact integers is the average's, the other half that of the difference in a pair.
TEST(Pattern, FloatAveragesOccurUpToTheLargestAllowed) {
  for (const DType type : {DType::F8E4M3, DType::F8E5M2}) {
    const FloatFormat format = format_of(type);
    for (int ranks = 2; ranks <= 4; ++ranks) {
      const auto share = static_cast<int>(format.exact_integers()) / ranks;
      double largest = 0;
      for (uint64_t place = 0; place < 500; ++place) {
        largest = std::max(largest, std::fabs(decode(fold_of_all({5, ranks, place}, type, Op::Avg), format)));
      }
      EXPECT_EQ(largest, share > 1 ? share - share / 2 : 1) << named(type, Op::Avg, ranks);
    }
  }
}

TEST(Pattern, IntegerAveragesDoNotWrap) {
  for (const DType type : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32}) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (uint64_t place = 0; place < 100; ++place) {
        const Spot spot{5, ranks, place};
        int64_t sum = 0;
        for (uint64_t bits : brought(spot, type, Op::Avg)) {
          if (type == DType::I8) bits = static_cast<uint64_t>(static_cast<int8_t>(bits));
          if (type == DType::I16) bits = static_cast<uint64_t>(static_cast<int16_t>(bits));
          if (type == DType::I32) bits = static_cast<uint64_t>(static_cast<int32_t>(bits));
          sum += static_cast<int64_t>(bits);
        }
        const auto expected = static_cast<uint64_t>(sum / ranks) & (~uint64_t{0} >> (64 - 8 * size_of(type)));
        ASSERT_EQ(fold_of_all(spot, type, Op::Avg), expected) << named(type, Op::Avg, ranks);
      }
    }
  }
}

/// The neutral element of the operator.
uint64_t fold_of_none(DType type, Op op) {
  if (op == Op::BitAnd) return ~uint64_t{0} >> (64 - 8 * size_of(type));
  if (op != Op::Prod) return 0;
  return is_float(type) ? encode(1, format_of(type)) : 1;
}

TEST(Pattern, DetectsAMissingOrDoubledContribution) {
  for_every_type_and_op([&](DType type, Op op) {
    if (chooses(op)) return;  // only one rank in n has the minimum
    for (const int ranks : {2, 5, 16, 64}) {
      for (const int rank : {0, ranks / 2, ranks - 1}) {
        int missing = 0, doubled = 0;
        for (uint64_t place = 0; place < 300; ++place) {
          const auto values = brought({11, ranks, place}, type, op);
          uint64_t others = fold_of_none(type, op);
          for (int r = 0; r < ranks; ++r) {
            if (r != rank) others = fold(others, values[static_cast<size_t>(r)], type, op);
          }
          const auto result = [&](uint64_t sum) { return op == Op::Avg ? divide(sum, ranks, type) : sum; };
          const uint64_t right = fold(others, values[static_cast<size_t>(rank)], type, op);
          missing += result(others) != result(right);
          doubled += result(fold(right, values[static_cast<size_t>(rank)], type, op)) != result(right);
        }
        EXPECT_GT(missing, 3) << named(type, op, ranks) << ", rank " << rank;
        const bool shows = op != Op::BitAnd && op != Op::BitOr;  // those of a doubled one are the same
        EXPECT_TRUE(doubled > 3 || !shows) << named(type, op, ranks) << ", rank " << rank;
      }
    }
  });
}

// ---- whole buffers

using Bytes = std::vector<std::byte>;

Bytes input_of(Pattern& pattern, const CallShape& shape, int rank) {
  Bytes input(pattern.input_count(rank) * size_of(shape.type));
  pattern.fill_input(rank, input.data());
  return input;
}

/// The collective's result, computed directly from all ranks' inputs.
Bytes output_of(Pattern& pattern, const CallShape& shape, int rank) {
  const size_t size = size_of(shape.type), block = shape.count * size;
  std::vector<Bytes> inputs;
  for (int r = 0; r < shape.ranks; ++r) inputs.push_back(input_of(pattern, shape, r));
  Bytes out;
  const auto append = [&](int source, size_t offset) {
    const auto& from = inputs[static_cast<size_t>(source)];
    out.insert(out.end(), from.begin() + static_cast<ptrdiff_t>(offset),
               from.begin() + static_cast<ptrdiff_t>(offset + block));
  };
  const auto folded = [&](size_t offset) {
    for (size_t at = offset; at < offset + block; at += size) {
      uint64_t all = 0;
      for (int r = 0; r < shape.ranks; ++r) {
        uint64_t value = 0;
        std::memcpy(&value, &inputs[static_cast<size_t>(r)][at], size);
        if (shape.op == Op::PreMulSum) value = fold(value, pattern.scalar(r), shape.type, Op::Prod);
        all = r == 0 ? value : fold(all, value, shape.type, shape.op);
      }
      if (shape.op == Op::Avg) all = divide(all, shape.ranks, shape.type);
      const auto* bytes = reinterpret_cast<const std::byte*>(&all);
      out.insert(out.end(), bytes, bytes + size);
    }
  };
  const size_t mine = static_cast<size_t>(rank) * block;
  switch (shape.collective) {
    case Collective::AllReduce:
      folded(0);
      break;
    case Collective::Reduce:
      if (rank == shape.root) folded(0);
      break;
    case Collective::ReduceScatter:
      folded(mine);
      break;
    case Collective::Broadcast:
      append(shape.root, 0);
      break;
    case Collective::Scatter:
      append(shape.root, mine);
      break;
    case Collective::SendRecv:
      append((rank + shape.ranks - 1) % shape.ranks, 0);
      break;
    case Collective::AllToAll:
      for (int r = 0; r < shape.ranks; ++r) append(r, mine);
      break;
    case Collective::AllGather:
      for (int r = 0; r < shape.ranks; ++r) append(r, 0);
      break;
    case Collective::Gather:
      if (rank == shape.root)
        for (int r = 0; r < shape.ranks; ++r) append(r, 0);
      break;
    case Collective::Barrier:
      break;
  }
  return out;
}

TEST(Pattern, ExpectsTheCollectivesResult) {
  for (int c = 0; c < kCollectives; ++c) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{37}, size_t{3 * Pattern::kPeriod + 5}}) {
      for (const DType type : {DType::U8, DType::F16, DType::I64}) {
        for (const Op op : {Op::Sum, Op::Avg, Op::PreMulSum}) {
          const CallShape shape{static_cast<Collective>(c), type, op, 3, 2, count};
          Pattern pattern(shape, 4);
          for (int rank = 0; rank < shape.ranks; ++rank) {
            const Bytes output = output_of(pattern, shape, rank);
            ASSERT_EQ(output.size(), pattern.output_count(rank) * size_of(type)) << name_of(shape.collective);
            ASSERT_EQ(pattern.check_output(rank, output.data()).wrong, 0u) << name_of(shape.collective);
            const Bytes input = input_of(pattern, shape, rank);
            ASSERT_EQ(pattern.check_input(rank, input.data()).wrong, 0u);
          }
          if (!reduces(shape.collective)) break;
        }
      }
    }
  }
}

TEST(Pattern, CountsWrongElementsAndNamesTheFirst) {
  const CallShape shape{Collective::AllReduce, DType::F32, Op::Sum, 4, 0, 20000};
  Pattern pattern(shape, 1);
  Bytes output = output_of(pattern, shape, 0);
  for (const size_t element : {size_t{123}, size_t{8191}, size_t{19999}}) output[4 * element + 1] ^= std::byte{1};
  const Verdict verdict = pattern.check_output(0, output.data());
  EXPECT_EQ(verdict.wrong, 3u);
  EXPECT_EQ(verdict.first, 123u);
  EXPECT_EQ(verdict.got ^ verdict.expected, 0x100u);
}

TEST(Pattern, DetectsMisplacedChunks) {
  for_every_type_and_op([&](DType type, Op op) {
    constexpr size_t kCount = 3 * Pattern::kPeriod;
    const CallShape shape{Collective::AllReduce, type, op, 2, 0, kCount};
    Pattern pattern(shape, 1);
    const size_t size = size_of(type);
    Bytes right(kCount * size);
    for (size_t i = 0; i < kCount; ++i) {
      const uint64_t bits = pattern.folded_element(i);
      std::memcpy(&right[i * size], &bits, size);
    }
    ASSERT_EQ(pattern.check_output(0, right.data()).wrong, 0u);
    // By one element, a cache line, half of the buffer, and exactly the pattern's period.
    for (const size_t shift : {size_t{1}, size_t{64}, kCount / 2, Pattern::kPeriod}) {
      Bytes moved = right;
      std::rotate(moved.begin(), moved.begin() + static_cast<ptrdiff_t>(shift * size), moved.end());
      EXPECT_GT(pattern.check_output(0, moved.data()).wrong, kCount / 8) << named(type, op, 2) << ", by " << shift;
    }
  });
}

TEST(Pattern, DiffersFromRankToRankAndFromSeedToSeed) {
  for_every_type_and_op([&](DType type, Op op) {
    const CallShape shape{Collective::AllReduce, type, op, 2, 0, 1000};
    Pattern one(shape, 1), two(shape, 2);
    const Bytes first = input_of(one, shape, 0);
    EXPECT_GT(one.check_input(1, first.data()).wrong, 100u) << named(type, op, 2);
    EXPECT_GT(two.check_input(0, first.data()).wrong, 100u) << named(type, op, 2);
  });
}

TEST(GuardedBuffer, DetectsWritesOutsideIt) {
  GuardedBuffer buffer(1000);
  buffer.arm(999);
  EXPECT_EQ(buffer.damaged(), 0u);
  EXPECT_EQ(buffer.data()[998], std::byte{0xff});
  buffer.data()[999] ^= std::byte{1};
  EXPECT_EQ(buffer.damaged(), 1u);
  buffer.data()[-1] ^= std::byte{1};
  EXPECT_EQ(buffer.damaged(), 2u);
  buffer.arm(10);
  EXPECT_EQ(buffer.damaged(), 0u);
  EXPECT_THROW(buffer.arm(1001), std::length_error);
}

}  // namespace
}  // namespace tutti::tools
