#include <gtest/gtest.h>

#include <set>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Ring, AllReduceSendsEachChunkTwiceRound) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "ring"}, 3, 1),
            (Words{"lend in[1/3] > 2", "fold scratch[0/3] = <0 + in[0/3]", "lend scratch[0/3] > 2",
                   "complete out[2/3] = <0 + in[2/3]", "lend out[2/3] > 2", "recv out[1/3] < 0", "lend out[1/3] > 2",
                   "recv out[0/3] < 0"}));
}

TEST(Ring, OfOneIsACopy) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "ring"}, 1, 0), Words{"copy out = in"});
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "ring"}, 1, 0), Words{"copy out = in"});
}

TEST(Ring, AllGatherPassesOnWhatItHeardLast) {
  EXPECT_EQ(steps_of({Collective::AllGather, "ring"}, 3, 0),
            (Words{"lend in > 1", "copy out#0 = in", "recv out#2 < 2", "lend out#2 > 1", "recv out#1 < 2"}));
}

TEST(Ring, ReduceScatterStartsABlockAfterItsOwner) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "ring"}, 3, 2),
            (Words{"lend in#1 > 0", "fold scratch = <1 + in#0", "send scratch > 0", "complete out = <1 + in#2"}));
}

TEST(Ring, OfTwoDirectionsHasHalfOfTheDataInEach) {
  const char* name = "bidirectional_ring";
  EXPECT_EQ(steps_of({Collective::AllReduce, name}, 3, 1),
            (Words{"lend in[1/6] > 2", "fold scratch[0/6] = <0 + in[0/6]", "lend scratch[0/6] > 2",
                   "complete out[2/6] = <0 + in[2/6]", "lend out[2/6] > 2", "recv out[1/6] < 0", "lend out[1/6] > 2",
                   "recv out[0/6] < 0", "|", "lend in[4/6] > 0", "fold scratch[5/6] = <2 + in[5/6]",
                   "lend scratch[5/6] > 0", "complete out[3/6] = <2 + in[3/6]", "lend out[3/6] > 0",
                   "recv out[4/6] < 2", "lend out[4/6] > 0", "recv out[5/6] < 2"}));
  EXPECT_EQ(steps_of({Collective::AllGather, name}, 3, 1),
            (Words{"lend in[0/2] > 2", "copy out#1[0/2] = in[0/2]", "recv out#0[0/2] < 0", "lend out#0[0/2] > 2",
                   "recv out#2[0/2] < 0", "|", "lend in[1/2] > 0", "copy out#1[1/2] = in[1/2]", "recv out#2[1/2] < 2",
                   "lend out#2[1/2] > 0", "recv out#0[1/2] < 2"}));
  EXPECT_EQ(
      steps_of({Collective::ReduceScatter, name}, 3, 1),
      (Words{"lend in#0[0/2] > 2", "fold scratch[0/2] = <0 + in#2[0/2]", "send scratch[0/2] > 2",
             "complete out[0/2] = <0 + in#1[0/2]", "|", "lend in#2[1/2] > 0", "fold scratch[1/2] = <2 + in#0[1/2]",
             "send scratch[1/2] > 0", "complete out[1/2] = <2 + in#1[1/2]"}));
}

TEST(Ring, FourOfThemShareNoLink) {
  for (const Rank n : {5, 7, 8, 9, 10, 12, 30, 64}) {
    std::set<std::pair<Rank, Rank>> used;
    for (const LinkCount& link : count(Candidate{Collective::AllGather, "four_rings"}.plans(n)).links) {
      EXPECT_TRUE(used.emplace(link.from, link.to).second) << n << " ranks, lane " << link.lane;
    }
    EXPECT_EQ(used.size(), static_cast<size_t>(4 * n));
  }
}

TEST(Ring, LendsWhatItCan) {
  // Not reduce-scatter: its partial sums go straight from a fold into a message.
  EXPECT_TRUE(lends_what_it_can({Collective::AllReduce, "ring"}));
  EXPECT_TRUE(lends_what_it_can({Collective::AllGather, "ring"}));
}

TEST(Ring, IsNotInTheCanonicalOrder) { EXPECT_FALSE(is_canonical(Candidate{Collective::AllReduce, "ring"}.plans(4))); }

}  // namespace
}  // namespace tutti::plan
