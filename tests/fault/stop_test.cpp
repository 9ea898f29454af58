// SIGSTOP of one rank in the middle of a call: the others' calls fail, and from then on their buffers belong to them.
// When the stopped rank continues, possibly in the middle of a store, it must not change any of them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <thread>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

using Parameters = std::tuple<int, int, std::string>;  // ranks, stopped rank, call

class Stopped : public testing::TestWithParam<Parameters> {};

void stop_and_go_on(int ranks, int victim, const std::string& call, double moment) {
  Job job({"shm", ranks, "TUTTI_TIMEOUT=1"}, [&](int rank) {
    const std::string calls = call + "\nrepeat " + call;
    return rank == victim ? calls : calls + "\nfill\nwait\nintact";
  });
  for (int rank = 0; rank < ranks; ++rank) job.await(rank, 0);
  std::this_thread::sleep_for(std::chrono::duration<double>(moment));
  job.child_of(victim).signal(SIGSTOP);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != victim) job.await(rank, 2);
  }
  job.child_of(victim).signal(SIGCONT);
  job.await(victim, 1);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != victim) job.go(rank);
  }
  const auto results = job.finish(30);
  EXPECT_EQ(job.problem(), "");
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = results[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), rank == victim ? 3U : 6U) << "it ended before its script did";
    EXPECT_NE(story[2].code, tuttiSuccess) << "the call that the other one was stopped in";
    if (rank == victim) continue;
    EXPECT_EQ(story[5].code, tuttiSuccess) << "its output was written after its call had failed";
  }
}

TEST_P(Stopped, WritesToNoOtherRanksBufferAfterContinuing) {
  const auto& [ranks, victim, call] = GetParam();
  constexpr int kRuns = 4;
  std::mt19937_64 random(static_cast<uint64_t>(victim) + 1);
  for (int run = 0; run < kRuns && !HasFailure(); ++run) {
    const double moment = std::uniform_real_distribution<double>(1e-3, 60e-3)(random);
    SCOPED_TRACE(fmt::format("run {}, stopped after {:.1f} ms", run, moment * 1e3));
    stop_and_go_on(ranks, victim, call, moment);
  }
}

// Stored directly to the destination; copied by both ends, through mapped memory and through the kernel.
INSTANTIATE_TEST_SUITE_P(Placing, Stopped,
                         testing::Combine(testing::Values(2, 3), testing::Values(1),
                                          testing::Values("all_reduce 8388608 i64 sum mapped")));
INSTANTIATE_TEST_SUITE_P(Helping, Stopped,
                         testing::Combine(testing::Values(2), testing::Values(0),
                                          testing::Values("broadcast 4194304 i64 0 mapped",
                                                          "broadcast 4194304 i64 0")));
INSTANTIATE_TEST_SUITE_P(HelpingARoot, Stopped,
                         testing::Combine(testing::Values(2), testing::Values(1),
                                          testing::Values("gather 4194304 i64 0 mapped", "gather 4194304 i64 0")));

}  // namespace
}  // namespace tutti::fault
