#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(RecursiveDoubling, AllReduceOfFourExchangesTwice) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "recursive_doubling"}, 4, 2),
            (Words{"lend out of place in > 3", "fold out = in + <3", "send out > 0", "complete out = <0 + out"}));
}

TEST(RecursiveDoubling, AllReduceFoldsAPairIntoItsEvenRank) {
  const Candidate all_reduce{Collective::AllReduce, "recursive_doubling"};
  EXPECT_EQ(steps_of(all_reduce, 3, 0),
            (Words{"fold out = in + <1", "send out > 2", "complete out = out + <2", "lend out > 1"}));
  EXPECT_EQ(steps_of(all_reduce, 3, 1), (Words{"lend in > 0", "recv out < 0"}));
  EXPECT_EQ(steps_of(all_reduce, 3, 2), (Words{"lend out of place in > 0", "complete out = <0 + in"}));
}

TEST(RecursiveDoubling, AllGatherOfThreeNeedsTwoSteps) {
  EXPECT_EQ(steps_of({Collective::AllGather, "recursive_doubling"}, 3, 0),
            (Words{"lend in > 2", "copy out#0 = in", "recv out#1 < 1", "lend out#0 > 1", "recv out#2 < 2"}));
}

TEST(RecursiveDoubling, AllGatherPutsAllItHasIntoOneMessage) {
  EXPECT_EQ(
      steps_of({Collective::AllGather, "recursive_doubling"}, 4, 3),
      (Words{"lend in > 2", "copy out#3 = in", "recv out#0 < 0", "lend out#3,out#0 > 1", "recv out#1,out#2 < 1"}));
}

TEST(RecursiveDoubling, BroadcastScattersThenGathers) {
  const Candidate broadcast{Collective::Broadcast, "recursive_doubling"};
  EXPECT_EQ(steps_of(broadcast, 4, 0), (Words{"lend in[2-3/4] > 2", "lend in[1/4] > 1", "copy out[0-3/4] = in[0-3/4]",
                                              "|", "lend in[0/4] > 3", "lend in[0-1/4] > 2"}));
  EXPECT_EQ(steps_of(broadcast, 4, 2),
            (Words{"recv out[2/4],scratch[3/4] < 0", "lend scratch[3/4] > 3", "|", "after 0: lend out[2/4] > 1",
                   "recv out[3/4] < 3", "recv out[0-1/4] < 0"}));
}

TEST(RecursiveHalving, ReduceScatterOfFourHalvesTwice) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "recursive_doubling"}, 4, 1),
            (Words{"lend in#0,in#2 > 0", "fold scratch#1,scratch#3 = <0 + in#1,in#3", "lend scratch#3 > 3",
                   "complete out = scratch#1 + <3"}));
}

TEST(RecursiveHalving, ReduceScatterHandsOnTheOddRanksBlock) {
  const Candidate reduce_scatter{Collective::ReduceScatter, "recursive_doubling"};
  EXPECT_EQ(steps_of(reduce_scatter, 3, 0),
            (Words{"fold scratch#0,scratch#1,scratch#2 = in#0,in#1,in#2 + <1", "lend scratch#2 > 2",
                   "complete out,scratch#1 = scratch#0,scratch#1 + <2", "lend scratch#1 > 1"}));
  EXPECT_EQ(steps_of(reduce_scatter, 3, 1), (Words{"lend in#0,in#1,in#2 > 0", "recv out < 0"}));
}

TEST(RecursiveHalving, ReduceGathersTheChunksUpATree) {
  const Candidate reduce{Collective::Reduce, "recursive_doubling"};
  EXPECT_EQ(steps_of(reduce, 2, 0),
            (Words{"lend in[1/2] > 1", "complete out[0/2] = in[0/2] + <1", "|", "after 1: recv out[1/2] < 1"}));
  EXPECT_EQ(steps_of(reduce, 2, 1),
            (Words{"lend in[0/2] > 0", "complete scratch[1/2] = <0 + in[1/2]", "|", "after 1: send scratch[1/2] > 0"}));
}

TEST(RecursiveDoubling, IsReproducible) {
  for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter}) {
    EXPECT_TRUE(is_reproducible({c, "recursive_doubling"})) << name_of(c);
  }
  EXPECT_TRUE(is_canonical(Candidate{Collective::Reduce, "recursive_doubling"}.plans(7)));  // of root 0
}

TEST(RecursiveDoubling, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                             Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "recursive_doubling"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
