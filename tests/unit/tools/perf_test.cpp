// The parts of `tutti perf` that make no collective call.
#include <gtest/gtest.h>

#include "tools/perf/options.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

TEST(Sweep, GoesByFactorAndByStep) {
  EXPECT_EQ(sweep(8, 128, 0, 4), (std::vector<size_t>{8, 32, 128}));
  EXPECT_EQ(sweep(8, 100, 0, 4), (std::vector<size_t>{8, 32}));
  EXPECT_EQ(sweep(8, 40, 16, 4), (std::vector<size_t>{8, 24, 40}));
  EXPECT_EQ(sweep(8, 8, 0, 2), (std::vector<size_t>{8}));
}

TEST(Sweep, AlwaysEnds) {
  EXPECT_EQ(sweep(0, 4, 0, 2), (std::vector<size_t>{0, 2, 4}));
  EXPECT_EQ(sweep(1, 4, 0, 1.1), (std::vector<size_t>{1, 2, 3, 4}));
  EXPECT_EQ(sweep(SIZE_MAX - 1, SIZE_MAX, 0, 2).size(), 1u);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::AllReduce, 4), 1.5);
  for (const Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll, Collective::Gather,
                             Collective::Scatter}) {
    EXPECT_DOUBLE_EQ(bus_factor(c, 4), 0.75) << name_of(c);
  }
  for (const Collective c : {Collective::Broadcast, Collective::Reduce, Collective::SendRecv}) {
    EXPECT_DOUBLE_EQ(bus_factor(c, 4), 1) << name_of(c);
  }
}

TEST(Rows, CountWhatTheCallIsGivenAndMeasureTheWholeBuffer) {
  PerfOptions options;
  options.sizes = {0, 4, 100, 104};
  options.collective = Collective::AllGather;
  const auto rows = rows_of(options, 4);
  ASSERT_EQ(rows.size(), 3u);  // 100 and 104 bytes are both 6 elements for each of 4 ranks
  EXPECT_EQ(rows[0].count, 0u);
  EXPECT_EQ(rows[1].count, 1u);  // at least one
  EXPECT_EQ(rows[1].bytes, 16u);
  EXPECT_EQ(rows[2].count, 6u);
  EXPECT_EQ(rows[2].bytes, 96u);
}

TEST(Rows, GoThroughTypesOpsAndRoots) {
  PerfOptions options;
  options.sizes = {64};
  options.collective = Collective::Reduce;
  options.types = parse_types("all");
  options.ops = parse_ops("all");
  options.root = PerfOptions::kAllRoots;
  EXPECT_EQ(rows_of(options, 3).size(), static_cast<size_t>(kDTypes * kOps * 3));
}

TEST(Names, OfNcclTestsAreKnown) {
  EXPECT_EQ(parse_types("bfloat16"), std::vector<DType>{DType::BF16});
  EXPECT_EQ(parse_types("int16"), std::vector<DType>{DType::I16});
  EXPECT_EQ(parse_types("u16"), std::vector<DType>{DType::U16});
  EXPECT_EQ(parse_types("f8e4m3"), std::vector<DType>{DType::F8E4M3});
  EXPECT_EQ(parse_ops("mulsum"), std::vector<Op>{Op::PreMulSum});
  EXPECT_THROW(parse_types(""), Error);
}

}  // namespace
}  // namespace tutti::tools
