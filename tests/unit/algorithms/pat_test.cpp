#include <gtest/gtest.h>

#include "support/prove.hpp"
#include "support/random_executor.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

const Candidate kAllGather{Collective::AllGather, "pat"};
const Candidate kReduceScatter{Collective::ReduceScatter, "pat"};

TEST(Pat, AllGatherOfFiveGoesFarFirst) {
  EXPECT_EQ(steps_of(kAllGather, 5, 0), (Words{"lend in > 4", "copy out#0 = in", "recv out#1 < 1", "lend out#0 > 2",
                                               "recv out#3 < 3", "lend out#0,out#3 > 1", "recv out#4,out#2 < 4"}));
}

TEST(Pat, ReduceScatterIsThatBackwards) {
  EXPECT_EQ(steps_of(kReduceScatter, 5, 0),
            (Words{"lend in#4,in#2 > 4", "fold scratch#0,scratch#1 = in#0,in#3 + <1", "lend scratch#1 > 3",
                   "fold scratch#0 = scratch#0 + <2", "lend in#1 > 1", "complete out = scratch#0 + <4"}));
}

/// The peers that rank 0 sends to, step by step.
std::vector<Rank> peers_of(const Candidate& candidate, Rank n) {
  const RankPlan plan = generate(candidate.algorithm(), {candidate.collective, n}, 0);
  std::vector<Rank> peers;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::Send) peers.push_back(plan.peers[step.peers.begin]);
  }
  return peers;
}

TEST(Pat, GrowsEachBranchToItsEndWhereRunsAreLong) {
  // 128 places are 16 runs of 8. Between runs 64, 32, 16, 8; then, below each run's first place, 4 (2 (1), 1), 2
  // (1), 1.
  EXPECT_EQ(peers_of(kAllGather, 128), (std::vector<Rank>{64, 32, 16, 8, 4, 2, 1, 1, 2, 1, 1}));
}

TEST(Pat, NeverHasMoreThan16BlocksInAMessageNorManySumsInScratch) {
  for (const Rank n : {33, 64, 100, 128, 1000}) {
    const Cost cost = kReduceScatter.algorithm().cost({Collective::ReduceScatter, n});
    EXPECT_LE(cost.message.value(), 16) << n;
    const RankPlan plan = generate(kReduceScatter.algorithm(), {Collective::ReduceScatter, n}, 1);
    const int64_t bits_of_a_run = cost.stages - 4;  // 16 runs: 4 bits
    EXPECT_LE(plan.scratch_blocks, 16 * bits_of_a_run) << n;
  }
}

TEST(Pat, IsRightInAnyOrderWhereSumsTakeEachOthersPlaces) {
  for (const Rank n : {65, 70}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const test::Trial trial{.seed = seed, .windows = {3, 3, 2, 1}, .in_place = seed % 2 == 1};
      EXPECT_EQ(test::run_in_random_order(kReduceScatter.plans(n), trial), "") << n;
    }
  }
}

TEST(Pat, LendsWhatItCan) {
  EXPECT_TRUE(lends_what_it_can(kAllGather));
  for (Rank n = 1; n <= 64; ++n) {  // beyond, sums take places of others, and are all copied
    EXPECT_TRUE(count(kReduceScatter.plans(n)).lends_missed.empty()) << n;
  }
}

}  // namespace
}  // namespace tutti::plan
