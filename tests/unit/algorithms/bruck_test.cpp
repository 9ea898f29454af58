#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

const Candidate kBruck{Collective::AllToAll, "bruck"};

TEST(Bruck, OfFourSendsOneHopThenTwo) {
  EXPECT_EQ(steps_of(kBruck, 4, 0), (Words{"copy out#0 = in#0", "lend in#1,in#3 > 1", "recv out#3,out#1 < 3",
                                           "send in#2,out#1 > 2", "recv out#2,out#1 < 2"}));
}

TEST(Bruck, OfFiveSendsItsOwnBlockAloneInTheLastStep) {
  EXPECT_EQ(steps_of(kBruck, 5, 2),
            (Words{"copy out#2 = in#2", "lend in#3,in#0 > 3", "recv out#1,out#4 < 1", "send in#4,out#4 > 4",
                   "recv out#0,out#4 < 0", "lend in#1 > 1", "recv out#3 < 3"}));
}

TEST(Bruck, NeedsNoScratch) {
  for (const RankPlan& plan : kBruck.plans(11)) EXPECT_EQ(plan.scratch_blocks, 0u);
}

TEST(Bruck, LendsWhatItCan) { EXPECT_TRUE(lends_what_it_can(kBruck)); }

}  // namespace
}  // namespace tutti::plan
