// A rank is killed, and the others make a communicator without it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

class ShrinkAfterDeath : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ShrinkAfterDeath, GivesTheOthersACommunicatorThatWorks) {
  const auto& [transport, victim] = GetParam();
  constexpr int kRanks = 4;
  const std::string call = "all_reduce 1048576 f32 sum";
  Job job({transport, kRanks, "TUTTI_TIMEOUT=30"}, [&, victim = victim](int) {
    return fmt::format("{0}\nrepeat {0}\nshrink {1}\nuse 1\n{0}\nbarrier\ndestroy\nuse 0\ndestroy", call, victim);
  });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  job.child_of(victim).signal(SIGKILL);
  const auto stories = job.finish(30);
  EXPECT_EQ(job.problem(), "");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    const Story& story = stories[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), 10u) << "rank " << rank;
    for (const LineResult& result : story) {
      const bool of_the_dead = result.line == 1 || result.line == 8;
      EXPECT_EQ(result.code, of_the_dead ? tuttiPeerFailed : tuttiSuccess)
          << "rank " << rank << ", line " << result.line << ": " << result.text;
    }
  }
}

// Rank 0 holds the rendezvous server of the communicator.
INSTANTIATE_TEST_SUITE_P(Of, ShrinkAfterDeath,
                         ::testing::Combine(::testing::Values("shm", "tcp"), ::testing::Values(0, 2)));

}  // namespace
}  // namespace tutti::fault
