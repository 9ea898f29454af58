#include <gtest/gtest.h>

#include "algorithms/common.hpp"
#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using algorithms::BinomialTree;
using Words = std::vector<std::string>;
using Ranks = std::vector<Rank>;

TEST(BinomialTree, OfEightHasSubtreesOfOneTwoAndFour) {
  const BinomialTree tree(8);
  EXPECT_EQ(tree.children(0), (Ranks{1, 2, 4}));
  EXPECT_EQ(tree.children(4), (Ranks{5, 6}));
  EXPECT_EQ(tree.end(4), 8);
  EXPECT_EQ(tree.parent(7), 6);
  EXPECT_EQ(tree.parent(0), kNoRank);
}

TEST(BinomialTree, HangsOddRanksUnderTheirEvenNeighbours) {
  const BinomialTree tree(6);  // leaves (0 1) (2 3) 4 5
  EXPECT_EQ(tree.children(0), (Ranks{1, 2, 4}));
  EXPECT_EQ(tree.children(2), Ranks{3});
  EXPECT_EQ(tree.children(4), Ranks{5});
  EXPECT_EQ(tree.end(2), 4);
  EXPECT_EQ(tree.largest(), 2);
}

TEST(BinomialTree, HasEveryRankUnderItsParentAndInItsRun) {
  for (Rank n = 1; n <= 200; ++n) {
    const BinomialTree tree(n);
    for (Rank r = 0; r < n; ++r) {
      Rank next = r + 1;  // the children's runs follow each other
      for (const Rank child : tree.children(r)) {
        ASSERT_EQ(child, next) << n;
        ASSERT_EQ(tree.parent(child), r) << n;
        next = tree.end(child);
      }
      ASSERT_EQ(next, tree.end(r)) << n;
    }
    ASSERT_EQ(tree.end(0), n);
  }
}

TEST(Binomial, AllReduceGoesUpAndDownOnLanesOfTheirOwn) {
  const Candidate all_reduce{Collective::AllReduce, "binomial"};
  EXPECT_EQ(steps_of(all_reduce, 5, 0), (Words{"complete out = in + <1 + <2 + <3", "|", "after 0: lend out > 1 2 3"}));
  EXPECT_EQ(steps_of(all_reduce, 5, 3),
            (Words{"fold scratch = in + <4", "lend scratch > 0", "|", "recv out < 0", "lend out > 4"}));
  EXPECT_EQ(steps_of(all_reduce, 5, 4), (Words{"lend in > 3", "|", "recv out < 3"}));
}

TEST(Binomial, BroadcastGoesDown) {
  EXPECT_EQ(steps_of({Collective::Broadcast, "binomial"}, 4, 0), (Words{"lend in > 1 2", "copy out = in"}));
  EXPECT_EQ(steps_of({Collective::Broadcast, "binomial"}, 4, 2), (Words{"recv out < 0", "lend out > 3"}));
}

TEST(Binomial, ReduceGoesUp) {
  EXPECT_EQ(steps_of({Collective::Reduce, "binomial"}, 4, 2), (Words{"fold scratch = in + <3", "send scratch > 0"}));
  EXPECT_EQ(steps_of({Collective::Reduce, "binomial"}, 4, 0), Words{"complete out = in + <1 + <2"});
}

TEST(Binomial, AllGatherSendsItsSubtreeUpAndEverythingDown) {
  const Candidate all_gather{Collective::AllGather, "binomial"};
  EXPECT_EQ(steps_of(all_gather, 4, 2),
            (Words{"recv out#3 < 3", "lend in,out#3 > 0", "|", "recv out#0,out#1,out#2,out#3 < 0",
                   "lend out#0,out#1,out#2,out#3 > 3"}));
  EXPECT_EQ(steps_of(all_gather, 3, 0), (Words{"copy out#0 = in", "recv out#1 < 1", "recv out#2 < 2", "|",
                                               "after 2: lend out#0,out#1,out#2 > 1 2"}));
}

TEST(Binomial, ReduceScatterSendsEachChildItsSubtreesBlocks) {
  const Candidate reduce_scatter{Collective::ReduceScatter, "binomial"};
  EXPECT_EQ(steps_of(reduce_scatter, 4, 0),
            (Words{"complete out,scratch#0,scratch#1,scratch#2 = in#0,in#1,in#2,in#3 + <1 + <2", "|",
                   "after 0: send scratch#0 > 1", "lend scratch#1,scratch#2 > 2"}));
  EXPECT_EQ(
      steps_of(reduce_scatter, 4, 2),
      (Words{"fold scratch#1,scratch#2,scratch#3,scratch#4 = in#0,in#1,in#2,in#3 + <3",
             "lend scratch#1,scratch#2,scratch#3,scratch#4 > 0", "|", "recv out,scratch#0 < 0", "send scratch#0 > 3"}));
}

TEST(Binomial, IsReproducible) {
  for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
    EXPECT_TRUE(is_reproducible({c, "binomial"})) << name_of(c);
  }
}

TEST(Binomial, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                             Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "binomial"})) << name_of(c);
  }
}

TEST(Binomial, AllReduceOverlapsItsRounds) {
  const auto plans = Candidate{Collective::AllReduce, "binomial"}.plans(5);  // two deep: two messages up, two down
  EXPECT_EQ(time_of(plans, 1), 4);
  EXPECT_EQ(time_of(plans, 32), 4 + 31);
}

TEST(Binomial, AllReduceOnOneLaneWouldNot) {  // so the clock tells them apart: the root waits for the up of each round
  auto plans = Candidate{Collective::AllReduce, "binomial"}.plans(5);
  for (RankPlan& plan : plans) {  // one lane, the down steps after the up steps, as they lie in the table
    plan.lanes = {{plan.lanes[0].steps.begin, plan.lanes[1].steps.end}};
    for (Step& step : plan.steps) step.after = kNone;
  }
  EXPECT_GE(time_of(plans, 32), 32 * 4);
}

}  // namespace
}  // namespace tutti::plan
