// A rank is killed, and the others make a communicator without it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

class ShrinkAfterDeath : public testing::TestWithParam<std::tuple<std::string, int>> {};

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

/// A death that is known already, of a rank that is not excluded: nobody waits for it.
TEST_P(ShrinkAfterDeath, ThatForgetsTheDeadFailsAtOnce) {
  const auto& [transport, victim] = GetParam();
  constexpr int kRanks = 4, kExcluded = 1;
  Job job({transport, kRanks, "TUTTI_TIMEOUT=30 TUTTI_INIT_TIMEOUT=20"}, [&](int rank) {
    return rank == kExcluded ? "barrier\nrepeat barrier"
                             : fmt::format("barrier\nrepeat barrier\nshrink {}\nwait", kExcluded);
  });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  job.child_of(victim).signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim && rank != kExcluded) job.await(rank, 2);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim && rank != kExcluded) job.go(rank);
  }
  const auto stories = job.finish(60);
  EXPECT_EQ(job.problem(), "");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim || rank == kExcluded) continue;
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = stories[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), 5U);
    EXPECT_EQ(story[3].code, tuttiPeerFailed) << story[3].text;
    EXPECT_NE(story[3].text.find(fmt::format("rank {} (", victim)), std::string::npos) << story[3].text;
    EXPECT_LT(story[3].seconds, 5) << "and not TUTTI_INIT_TIMEOUT";
  }
}

/// Ranks that have heard of the death hear of the revocation too, also of a death of the process that made the id.
TEST_P(ShrinkAfterDeath, ARevocationThatFollowsIsToldByAllLaterCalls) {
  const auto& [transport, victim] = GetParam();
  constexpr int kRanks = 4, kRevoker = 1;
  Job job({transport, kRanks, "TUTTI_TIMEOUT=30"}, [&, victim = victim](int rank) {
    return fmt::format("barrier\nrepeat barrier\nwait\n{}\nuntil_revoked\nshrink {}\nuse 1\nbarrier\ndestroy",
                       rank == kRevoker ? "revoke" : "use 0", victim);
  });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  job.child_of(victim).signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) job.await(rank, 1);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) job.go(rank);
  }
  const auto stories = job.finish(60);
  EXPECT_EQ(job.problem(), "");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = stories[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), 10U);
    EXPECT_EQ(story[2].code, tuttiPeerFailed) << story[2].text;
    EXPECT_EQ(story[5].code, tuttiRevoked) << story[5].text;
    const size_t revoked = story[5].text.find(" revoked the communicator; before that: ");
    ASSERT_NE(revoked, std::string::npos) << story[5].text;
    EXPECT_NE(story[5].text.find(fmt::format("rank {} (", victim), revoked), std::string::npos) << story[5].text;
    for (size_t i = 6; i < story.size(); ++i) EXPECT_EQ(story[i].code, tuttiSuccess) << i << ": " << story[i].text;
  }
}

// Rank 0 holds the rendezvous server of the communicator.
INSTANTIATE_TEST_SUITE_P(Of, ShrinkAfterDeath, testing::Combine(testing::Values("shm", "tcp"), testing::Values(0, 2)));

}  // namespace
}  // namespace tutti::fault
