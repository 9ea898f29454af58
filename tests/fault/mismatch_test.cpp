// Ranks that make different calls: every rank gets an error, at that call or at its next, that names both ranks and
// both calls; no rank waits forever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

struct Kind {
  const char* name;
  const char* usual;     ///< the lines in question, of all ranks except one
  const char* odd;       ///< of that one; separated by ";"
  const char* names[2];  ///< what every rank's error text must contain
};

constexpr Kind kKinds[] = {
    {"Collective",
     "all_reduce 1024 f32 sum",
     "all_gather 1024 f32",
     {"all_reduce(count=1024, f32, sum)", "all_gather(count=1024, f32)"}},
    {"Count", "all_reduce 1024 f32 sum", "all_reduce 1000 f32 sum", {"count=1024", "count=1000"}},
    {"SmallCount", "all_reduce 2 f32 sum", "all_reduce 3 f32 sum", {"count=2", "count=3"}},
    {"LargeCount", "all_reduce 1000003 f32 sum", "all_reduce 1000004 f32 sum", {"count=1000003", "count=1000004"}},
    {"NoCount", "all_gather 0 f32", "all_gather 100 f32", {"count=0", "count=100"}},
    {"Type", "all_reduce 1024 f32 sum", "all_reduce 1024 i32 sum", {"f32", "i32"}},
    {"Operator", "reduce_scatter 1024 f32 sum", "reduce_scatter 1024 f32 max", {"f32, sum", "f32, max"}},
    {"Root", "broadcast 1024 f32 0", "broadcast 1024 f32 1", {"root=0", "root=1"}},
    {"RootOfReduce", "reduce 1024 f32 sum 0", "reduce 1024 f32 sum 1", {"root=0", "root=1"}},
    {"RootOfGather", "gather 5000 f32 0", "gather 5000 f32 1", {"root=0", "root=1"}},
    {"RootOfScatter", "scatter 5000 f32 0", "scatter 5000 f32 1", {"root=0", "root=1"}},
    {"Skipped", "all_reduce 1024 f32 sum", "", {"all_reduce(count=1024, f32, sum)", "barrier()"}},
    {"Additional",
     "all_reduce 1024 f32 sum",
     "all_reduce 1024 f32 sum;all_to_all 7 u8",
     {"all_to_all(count=7, u8)", "barrier()"}},
    {"AllToAll", "all_to_all 4096 f64", "all_to_all 4096 i64", {"f64", "i64"}},
};

constexpr const char* kBefore = "all_reduce 100 f32 sum\nbarrier\n";
constexpr int kLinesBefore = 2;

int lines_of(const std::string& text) {
  return text.empty() ? 0 : 1 + static_cast<int>(std::count(text.begin(), text.end(), ';'));
}

using Parameters = std::tuple<std::string, int, Kind>;

class Mismatch : public testing::TestWithParam<Parameters> {};

void expect_error_in_time(const Story& story, int rank, int last, const Kind& kind) {
  SCOPED_TRACE(fmt::format("rank {}", rank));
  int first = -1;
  for (const LineResult& report : story) {
    if (report.code != tuttiSuccess && first < 0) {
      first = report.line;
      EXPECT_EQ(report.code, tuttiMismatch) << report.text;
      EXPECT_LT(report.seconds, 10);
      for (const char* name : kind.names)
        EXPECT_NE(report.text.find(name), std::string::npos) << name << " is not in: " << report.text;
      EXPECT_NE(report.text.find(" where rank "), std::string::npos) << report.text;
    }
    if (first < 0) continue;
    EXPECT_EQ(report.code, tuttiMismatch) << "line " << report.line << " after the error: " << report.text;
  }
  EXPECT_GE(first, kLinesBefore - 1);  // a slow rank may report it in the call before
  EXPECT_LE(first, last) << "the error came later than at the call after the one that was wrong";
}

TEST_P(Mismatch, IsAnErrorOnEveryRank) {
  const auto& [transport, ranks, kind] = GetParam();
  for (const int odd : {ranks - 1, 0}) {
    SCOPED_TRACE(fmt::format("the odd one is rank {}", odd));
    Job job({transport, ranks, "TUTTI_TIMEOUT=20"}, [&, &kind = kind](int rank) {
      const std::string lines = rank == odd ? kind.odd : kind.usual;
      return kBefore + lines + (lines.empty() ? "" : "\n") + "barrier\nbarrier\ndestroy";
    });
    const auto results = job.finish();
    EXPECT_EQ(job.problem(), "");
    for (int rank = 0; rank < ranks; ++rank) {
      const int lines = lines_of(rank == odd ? kind.odd : kind.usual);
      expect_error_in_time(results[static_cast<size_t>(rank)], rank, kLinesBefore + lines, kind);
    }
  }
}

/// Rank 1 once broadcasts as the root. Its next call is correct, but the first message over that link belongs to the
/// call before and must not be taken for this call's.
TEST(MismatchOnce, AMessageOfOneCallIsNotTakenForAnother) {
  for (const char* transport : {"local", "shm", "tcp"}) {
    SCOPED_TRACE(transport);
    Job job({transport, 2, "TUTTI_TIMEOUT=20"},
            [](int rank) { return fmt::format("broadcast 7 f32 {}\nbroadcast 7 f32 0\nbarrier\ndestroy", rank); });
    const auto results = job.finish();
    EXPECT_EQ(job.problem(), "");
    for (const LineResult& report : results[1]) {
      EXPECT_TRUE(report.line != 1 || report.code == tuttiMismatch) << report.text;
    }
    EXPECT_GT(results[1].size(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Mismatch,
                         testing::Combine(testing::Values("local", "shm", "tcp"), testing::Values(2, 3, 5),
                                          testing::ValuesIn(kKinds)),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", std::get<2>(test.param).name, std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti::fault
