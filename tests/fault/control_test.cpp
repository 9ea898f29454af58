// The calls that move no data, split and destroy, are numbered like any other: every rank must make them at the same
// place. If one rank does not, every rank gets an error within seconds that names both calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

struct Kind {
  const char* name;
  const char* usual;                ///< the lines of all ranks except one; separated by ";"
  const char* odd;                  ///< the lines of that one; then all ranks call destroy
  std::vector<const char*> needed;  ///< what every rank's error text must contain
};

const Kind kKinds[] = {
    {"SplitForAllReduce", "all_reduce 1024 f32 sum;barrier", "split 0 0;barrier", {"all_reduce(count=1024", "split()"}},
    {"AllReduceForSplit", "split 0 0;barrier", "all_reduce 1024 f32 sum;barrier", {"all_reduce(count=1024", "split()"}},
    {"SplitForBarrier", "barrier;barrier", "split 0 0;barrier", {"barrier()", "split()"}},
    {"BroadcastForSplit", "split 0 0;barrier", "broadcast 8 f32 0;barrier", {"broadcast(count=8", "split()"}},
    {"SplitForBroadcast", "broadcast 8 f32 0;barrier", "split 0 0;barrier", {"broadcast(count=8", "split()"}},
    {"SplitLeftOut", "split 0 0;barrier", "barrier", {"barrier()", "split()"}},
    {"SplitTwice", "split 0 0;barrier", "split 0 0;split 0 1;barrier", {"barrier()", "split()"}},
    {"SplitInAGroup", "all_reduce 1024 f32 sum;barrier", "start;split 0 0;end;barrier", {"all_reduce(", "split()"}},
    {"AllReduceForASplitInAGroup", "start;split 0 0;end", "all_reduce 1024 f32 sum", {"all_reduce(", "split()"}},
    {"LastSplitLeftOut", "split 0 0", "", {"destroy()", "split()"}},
    {"DestroyForBarrier", "barrier;barrier", "", {"destroy()", "barrier()"}},
    {"DestroyForSplit", "split 0 0;barrier", "", {"destroy()", "split()"}},
};

using Parameters = std::tuple<std::string, int, Kind>;

class ControlCall : public testing::TestWithParam<Parameters> {};

/// The rank's first error is the mismatch, in time. If ranks are threads of one process, only the last one to leave can
/// wait for the others: so one that has left may get no error, or one that says how many calls each has made.
void expect_mismatch(const Story& story, int rank, const std::vector<const char*>& needed, bool may_be_gone) {
  SCOPED_TRACE(fmt::format("rank {}", rank));
  const auto first =
      std::find_if(story.begin(), story.end(), [](const LineResult& report) { return report.code != tuttiSuccess; });
  if (first == story.end() && may_be_gone) return;
  ASSERT_NE(first, story.end()) << "it heard nothing";
  EXPECT_EQ(first->code, tuttiMismatch) << first->text;
  EXPECT_LT(first->seconds, 10);
  const bool counts = may_be_gone && first->text.find(" left after ") != std::string::npos;
  for (const char* words : needed) {
    if (counts && (std::string(words) == "destroy()" || std::string(words) == " where rank ")) continue;
    EXPECT_NE(first->text.find(words), std::string::npos) << words << " is not in: " << first->text;
  }
}

TEST_P(ControlCall, AgainstAnotherCallIsAMismatchOnEveryRank) {
  const auto& [transport, ranks, kind] = GetParam();
  for (const int odd : {ranks - 1, 0}) {
    SCOPED_TRACE(fmt::format("the odd one is rank {}", odd));
    Job job({transport, ranks, "TUTTI_TIMEOUT=60 TUTTI_INIT_TIMEOUT=60"}, [&, &kind = kind](int rank) {
      const std::string lines = rank == odd ? kind.odd : kind.usual;
      return "all_reduce 100 f32 sum\n" + lines + (lines.empty() ? "" : "\n") + "destroy";
    });
    const auto results = job.finish();
    EXPECT_EQ(job.problem(), "");
    auto needed = kind.needed;
    needed.push_back(" where rank ");
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string mine = rank == odd ? kind.odd : kind.usual;
      expect_mismatch(results[static_cast<size_t>(rank)], rank, needed, transport == "local" && mine.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, ControlCall,
                         testing::Combine(testing::Values("local", "shm", "tcp"), testing::Values(2, 3),
                                          testing::ValuesIn(kKinds)),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", std::get<2>(test.param).name, std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

/// A rank does not call destroy() within the others' TUTTI_TIMEOUT: they report a time-out, and no success. On a busy
/// machine the late rank's answer, its last call, may come too late for one of the texts.
TEST(Destroy, WithoutAnotherRanksDestroyIsATimeOut) {
  int answers = 0;
  for (const int late : {0, 2}) {
    SCOPED_TRACE(fmt::format("rank {} is late", late));
    Job job({"shm", 3, "TUTTI_TIMEOUT=1"},
            [&](int rank) { return rank == late ? "barrier\nwait\ndestroy" : "barrier\ndestroy"; });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != late) job.await(rank, 1);
    }
    job.go(late);
    const auto results = job.finish();
    for (int rank = 0; rank < 3; ++rank) {
      const LineResult& last = results[static_cast<size_t>(rank)].back();
      if (rank == late) continue;
      EXPECT_EQ(last.code, tuttiTimeout) << last.text;
      const auto words =
          fmt::format("destroy(): rank {} waited 1.0 s for rank {} to leave; rank {} ", rank, late, late);
      EXPECT_NE(last.text.find(words), std::string::npos) << last.text;
      if (last.text.find(words + "is alive, its last call: barrier()") != std::string::npos) ++answers;
    }
  }
  EXPECT_GT(answers, 0) << "no text has the late rank's last call";
}

/// A broadcast's root waits for its zero-copy readers, here in a later call, and must not wait forever.
TEST(Failure, BetweenTwoCallsKeepsNoRankWaiting) {
  Job job({"shm", 2, ""}, [](int rank) {
    return rank == 0 ? "repeat broadcast 4000000 u8 0\ndestroy" : "broadcast 4000000 u8 0\nabort\nbarrier\ndestroy";
  });
  const auto results = job.finish();
  EXPECT_EQ(job.problem(), "");
  ASSERT_GE(results[0].size(), 2u);
  ASSERT_GE(results[1].size(), 3u);
  const LineResult &root = results[0][1], &abort = results[1][2];
  EXPECT_EQ(root.code, tuttiAborted) << root.text;
  EXPECT_EQ(abort.code, tuttiSuccess) << abort.text;
  EXPECT_LT(root.at - abort.at, 1);
}

class SubCommunicator : public testing::TestWithParam<std::string> {
 protected:
  /// All of five ranks split, `odd` of them makes `theirs` on the new communicator, the others `ours`; then all ranks
  /// leave it, and the first one.
  void expect_mismatch_everywhere(int odd, const std::string& ours, const std::string& theirs) {
    SCOPED_TRACE(fmt::format("the odd one is rank {}", odd));
    Job job({GetParam(), 5, "TUTTI_TIMEOUT=60"},
            [&](int rank) { return "split 0 0\nuse 1\n" + (rank == odd ? theirs : ours) + "destroy\nuse 0\ndestroy"; });
    const auto results = job.finish();
    EXPECT_EQ(job.problem(), "");
    for (int rank = 0; rank < 5; ++rank) {
      const std::string& mine = rank == odd ? theirs : ours;
      expect_mismatch(results[static_cast<size_t>(rank)], rank, {"all_reduce(count=100, f32, sum)", "destroy()"},
                      GetParam() == "local" && mine.find("all_reduce") == std::string::npos);
    }
  }
};

TEST_P(SubCommunicator, SkippingTheFirstCallIsReported) {
  for (const int odd : {0, 2, 4}) expect_mismatch_everywhere(odd, "all_reduce 100 f32 sum\n", "");
}

TEST_P(SubCommunicator, SkippingALaterCallIsReported) {
  for (const int odd : {0, 3}) expect_mismatch_everywhere(odd, "barrier\nall_reduce 100 f32 sum\n", "barrier\n");
}

TEST_P(SubCommunicator, AnAdditionalCallIsReportedToAll) {
  for (const int odd : {0, 2, 4}) expect_mismatch_everywhere(odd, "barrier\n", "barrier\nall_reduce 100 f32 sum\n");
}

TEST_P(SubCommunicator, AnAdditionalFirstCallIsReportedToAll) {
  for (const int odd : {0, 4}) expect_mismatch_everywhere(odd, "", "all_reduce 100 f32 sum\n");
}

INSTANTIATE_TEST_SUITE_P(Fault, SubCommunicator, testing::Values("local", "shm", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tutti::fault
