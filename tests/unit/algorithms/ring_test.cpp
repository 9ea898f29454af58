#include <gtest/gtest.h>

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
            (Words{"copy out = in", "lend out > 1", "recv out#2 < 2", "lend out#2 > 1", "recv out#1 < 2"}));
}

TEST(Ring, ReduceScatterStartsABlockAfterItsOwner) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "ring"}, 3, 2),
            (Words{"lend in#1 > 0", "fold scratch = <1 + in", "send scratch > 0", "complete out = <1 + in#2"}));
}

TEST(Ring, BroadcastAndReduceAreAChain) {
  EXPECT_EQ(steps_of({Collective::Broadcast, "ring"}, 3, 1), (Words{"recv out < 0", "lend out > 2"}));
  EXPECT_EQ(steps_of({Collective::Reduce, "ring"}, 3, 1), (Words{"fold scratch = in + <2", "send scratch > 0"}));
  EXPECT_EQ(steps_of({Collective::Reduce, "ring"}, 3, 0), Words{"complete out = in + <1"});
}

TEST(Ring, LendsWhatItCan) {
  // Not reduce-scatter: its partial sums go straight from a fold into a message.
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "ring"})) << name_of(c);
  }
}

TEST(Ring, IsNotInTheCanonicalOrder) { EXPECT_FALSE(is_canonical(Candidate{Collective::AllReduce, "ring"}.plans(4))); }

}  // namespace
}  // namespace tutti::plan
