#include <gtest/gtest.h>

#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

const Candidate kRabenseifner{Collective::AllReduce, "rabenseifner"};

TEST(Rabenseifner, OfFourHalvesTwiceAndDoublesTwice) {
  EXPECT_EQ(steps_of(kRabenseifner, 4, 0),
            (Words{"lend in[2-3/4] > 1", "fold out[0-1/4] = in[0-1/4] + <1", "lend out[1/4] > 2",
                   "complete out[0/4] = out[0/4] + <2", "|", "after 3: lend out[0/4] > 2", "recv out[1/4] < 2",
                   "lend out[0-1/4] > 1", "recv out[2-3/4] < 1"}));
}

TEST(Rabenseifner, LeavesALeafTheChunkOfItsReversedBits) {
  EXPECT_EQ(steps_of(kRabenseifner, 4, 1),
            (Words{"lend in[0-1/4] > 0", "fold out[2-3/4] = <0 + in[2-3/4]", "lend out[3/4] > 3",
                   "complete out[2/4] = out[2/4] + <3", "|", "after 3: lend out[2/4] > 3", "recv out[3/4] < 3",
                   "lend out[2-3/4] > 0", "recv out[0-1/4] < 0"}));
}

TEST(Rabenseifner, FoldsAPairIntoItsEvenRank) {
  EXPECT_EQ(steps_of(kRabenseifner, 3, 0),
            (Words{"fold out[0-1/2] = in[0-1/2] + <1", "lend out[1/2] > 2", "complete out[0/2] = out[0/2] + <2", "|",
                   "after 2: lend out[0/2] > 2", "recv out[1/2] < 2", "lend out[0-1/2] > 1"}));
  EXPECT_EQ(steps_of(kRabenseifner, 3, 1), (Words{"lend in[0-1/2] > 0", "|", "recv out[0-1/2] < 0"}));
}

TEST(Rabenseifner, SendsOnePieceOfMemoryAMessage) {
  for (const Rank n : {8, 13, 16}) {
    for (const RankPlan& plan : kRabenseifner.plans(n)) {
      for (const Step& step : plan.steps) EXPECT_EQ(step.pieces.size(), 1u) << n;
    }
  }
}

TEST(Rabenseifner, OverlapsItsRounds) {
  const auto plans = kRabenseifner.plans(8);
  EXPECT_EQ(time_of(plans, 1), 6);
  EXPECT_EQ(time_of(plans, 32), 6 + 31 * 3);
}

TEST(Rabenseifner, IsReproducible) { EXPECT_TRUE(is_reproducible(kRabenseifner)); }

TEST(Rabenseifner, LendsWhatItCan) { EXPECT_TRUE(lends_what_it_can(kRabenseifner)); }

}  // namespace
}  // namespace tutti::plan
