#include <gtest/gtest.h>

#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Swing, AllGatherOfFourDealsWithOneSideAndThenTheOther) {
  const Candidate all_gather{Collective::AllGather, "swing"};
  EXPECT_EQ(steps_of(all_gather, 4, 0), (Words{"copy out#0 = in", "lend out#0 > 3", "recv out#3 < 3",
                                               "lend out#0,out#3 > 1", "recv out#1,out#2 < 1"}));
  EXPECT_EQ(steps_of(all_gather, 4, 1), (Words{"copy out#1 = in", "lend out#1 > 2", "recv out#2 < 2",
                                               "lend out#1,out#2 > 0", "recv out#0,out#3 < 0"}));
}

TEST(Swing, AllGatherOfSixSendsNothingTwice) {  // blocks 2 and 5 are at both ranks before the last step
  EXPECT_EQ(steps_of({Collective::AllGather, "swing"}, 6, 0),
            (Words{"copy out#0 = in", "lend out#0 > 3", "recv out#3 < 3", "lend out#0,out#3 > 5",
                   "recv out#2,out#5 < 5", "lend out#0,out#3 > 1", "recv out#1,out#4 < 1"}));
}

TEST(Swing, ReduceScatterIsThatBackwards) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "swing"}, 4, 0),
            (Words{"lend in#1,in#2 > 1", "fold scratch#0,scratch#1 = in#0,in#3 + <1", "lend scratch#1 > 3",
                   "complete out = scratch#0 + <3"}));
}

TEST(Swing, AllReduceFoldsInTheOutputAndGathersOnALaneOfItsOwn) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "swing"}, 4, 1),
            (Words{"lend in[0/4],in[3/4] > 0", "fold out[1-2/4] = in[1-2/4] + <0", "lend out[2/4] > 2",
                   "complete out[1/4] = out[1/4] + <2", "|", "after 3: lend out[1/4] > 2", "recv out[2/4] < 2",
                   "lend out[1-2/4] > 0", "recv out[0/4],out[3/4] < 0"}));
}

TEST(Swing, TheLastOfAnOddNumberDealsWithEachDirectly) {
  EXPECT_EQ(steps_of({Collective::AllGather, "swing"}, 3, 0),
            (Words{"copy out#0 = in", "lend out#0 > 2", "lend out#0 > 1", "recv out#1 < 1", "recv out#2 < 2"}));
  EXPECT_EQ(steps_of({Collective::AllGather, "swing"}, 3, 2),
            (Words{"copy out#2 = in", "lend out#2 > 0 1", "recv out#0 < 0", "recv out#1 < 1"}));
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "swing"}, 3, 0),
            (Words{"lend in#2 > 2", "lend in#1 > 1", "complete out = in#0 + <1 + <2"}));
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "swing"}, 3, 2),
            (Words{"lend in#0 > 0", "lend in#1 > 1", "complete out = <0 + <1 + in#2"}));
}

TEST(Swing, GoesOneOneThreeFiveElevenPlaces) {
  const RankPlan plan =
      generate(Candidate{Collective::ReduceScatter, "swing"}.algorithm(), {Collective::ReduceScatter, 32}, 0);
  std::vector<Rank> peers;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::Send) peers.push_back(plan.peers[step.peers.begin]);
  }
  EXPECT_EQ(peers, (std::vector<Rank>{1, 32 - 1, 3, 32 - 5, 11}));
}

TEST(Swing, AllReduceOverlapsItsRounds) {
  const auto plans = Candidate{Collective::AllReduce, "swing"}.plans(6);
  EXPECT_EQ(time_of(plans, 1), 6);
  EXPECT_EQ(time_of(plans, 32), 6 + 31 * 3);
}

TEST(Swing, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    EXPECT_TRUE(lends_what_it_can({c, "swing"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
