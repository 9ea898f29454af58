#include <gtest/gtest.h>

#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Circulant, ReduceScatterOfFiveHalvesToThreeTwoOne) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "circulant"}, 5, 0),
            (Words{"lend in#3,in#4 > 3", "fold scratch#0,scratch#1 = in#0,in#1 + <2", "lend in#2 > 2",
                   "fold scratch#0 = scratch#0 + <3", "lend scratch#1 > 1", "complete out = scratch#0 + <4"}));
}

TEST(Circulant, AllGatherIsThatBackwards) {
  EXPECT_EQ(steps_of({Collective::AllGather, "circulant"}, 5, 0),
            (Words{"lend in > 4", "copy out#0 = in", "recv out#1 < 1", "lend out#0 > 3", "recv out#2 < 2",
                   "lend out#0,out#1 > 2", "recv out#3,out#4 < 3"}));
}

TEST(Circulant, AllReduceFoldsInTheOutputAndGathersOnALaneOfItsOwn) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "circulant"}, 3, 0),
            (Words{"lend in[2/3] > 2", "fold out[0/3] = in[0/3] + <1", "lend in[1/3] > 1",
                   "complete out[0/3] = out[0/3] + <2", "|", "after 3: lend out[0/3] > 2", "recv out[1/3] < 1",
                   "lend out[0/3] > 1", "recv out[2/3] < 2"}));
}

TEST(Circulant, GoesRoundTheCircleInOneMessage) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "circulant"}, 5, 1)[0], "lend in[4/5],in[0/5] > 4");
}

TEST(Circulant, KeepsHalfOfTheBlocksInScratch) {
  for (const Rank n : {3, 7, 8}) {
    const auto plans = Candidate{Collective::ReduceScatter, "circulant"}.plans(n);
    for (const RankPlan& plan : plans) EXPECT_EQ(plan.scratch_blocks, static_cast<uint32_t>(n / 2));
  }
  EXPECT_EQ((Candidate{Collective::ReduceScatter, "circulant"}.plans(2)[0].scratch_blocks), 0u);
}

TEST(Circulant, AllReduceOverlapsItsRounds) {
  const auto plans = Candidate{Collective::AllReduce, "circulant"}.plans(7);  // three steps there, three back
  EXPECT_EQ(time_of(plans, 1), 6);
  EXPECT_EQ(time_of(plans, 32), 6 + 31 * 3);
}

TEST(Circulant, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    EXPECT_TRUE(lends_what_it_can({c, "circulant"})) << name_of(c);
  }
}

TEST(Circulant, IsNotInTheCanonicalOrder) {
  EXPECT_FALSE(is_canonical(Candidate{Collective::AllReduce, "circulant"}.plans(4)));
}

}  // namespace
}  // namespace tutti::plan
