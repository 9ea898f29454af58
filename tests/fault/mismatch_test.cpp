// Ranks that call different things: every rank gets the error, at that call or its next, with both ranks and both calls
// in it; no rank waits for ever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

struct Kind {
  const char* name;
  const char* usual;     ///< the lines in question, of all ranks but one
  const char* odd;       ///< of that one; ";" between lines
  const char* names[2];  ///< what every rank's text must hold
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

class Mismatch : public ::testing::TestWithParam<Parameters> {};

void expect_error_in_time(const Story& story, int rank, int last, const Kind& kind) {
  SCOPED_TRACE(fmt::format("rank {}", rank));
  int first = -1;
  for (const Told& told : story) {
    if (told.code != tuttiSuccess && first < 0) {
      first = told.line;
      EXPECT_EQ(told.code, tuttiMismatch) << told.text;
      EXPECT_LT(told.seconds, 10);
      for (const char* name : kind.names)
        EXPECT_NE(told.text.find(name), std::string::npos) << name << " is not in: " << told.text;
      EXPECT_NE(told.text.find(" where rank "), std::string::npos) << told.text;
    }
    if (first < 0) continue;
    EXPECT_EQ(told.code, tuttiMismatch) << "line " << told.line << " after the error: " << told.text;
  }
  EXPECT_GE(first, kLinesBefore - 1);  // a slow rank may hear of it in the call before
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
    const auto stories = job.finish();
    EXPECT_EQ(job.problem(), "");
    for (int rank = 0; rank < ranks; ++rank) {
      const int lines = lines_of(rank == odd ? kind.odd : kind.usual);
      expect_error_in_time(stories[static_cast<size_t>(rank)], rank, kLinesBefore + lines, kind);
    }
  }
}

/// Rank 1 takes itself for the root once. Its next call is right, but what comes first over that link was meant for the
/// call before, and must not be taken for this one's.
TEST(MismatchOnce, GivesNoCallWhatAnotherOneWasSent) {
  for (const char* transport : {"local", "shm", "tcp"}) {
    SCOPED_TRACE(transport);
    Job job({transport, 2, "TUTTI_TIMEOUT=20"}, [](int rank) {
      return std::string(rank == 0 ? "broadcast 7 f32 0" : "broadcast 7 f32 1") +
             "\nbroadcast 7 f32 0\nbarrier\ndestroy";
    });
    const auto stories = job.finish();
    EXPECT_EQ(job.problem(), "");
    for (const Told& told : stories[1]) {
      EXPECT_TRUE(told.line != 1 || told.code == tuttiMismatch) << told.text;
    }
    EXPECT_GT(stories[1].size(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Mismatch,
                         ::testing::Combine(::testing::Values("local", "shm", "tcp"), ::testing::Values(2, 3, 5),
                                            ::testing::ValuesIn(kKinds)),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", std::get<2>(test.param).name, std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti::fault
