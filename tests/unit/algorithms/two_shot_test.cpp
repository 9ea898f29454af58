#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(TwoShot, AllReduceFoldsOneChunkAndTellsEveryone) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "two_shot"}, 3, 1),
            (Words{"lend in[2/3] > 2", "lend in[0/3] > 0", "complete out[1/3] = <0 + in[1/3] + <2",
                   "lend out[1/3] > 2 0", "recv out[2/3] < 2", "recv out[0/3] < 0"}));
}

TEST(TwoShot, BroadcastGivesTheRootNoChunk) {
  EXPECT_EQ(steps_of({Collective::Broadcast, "two_shot"}, 3, 0),
            (Words{"lend in[0/2] > 1", "lend in[1/2] > 2", "copy out[0-1/2] = in[0-1/2]"}));
  EXPECT_EQ(steps_of({Collective::Broadcast, "two_shot"}, 3, 2),
            (Words{"recv out[1/2] < 0", "lend out[1/2] > 1", "recv out[0/2] < 1"}));
}

TEST(TwoShot, ReduceGivesTheRootNoChunk) {
  EXPECT_EQ(steps_of({Collective::Reduce, "two_shot"}, 3, 0),
            (Words{"lend in[0/2] > 1", "lend in[1/2] > 2", "recv out[0/2] < 1", "recv out[1/2] < 2"}));
  EXPECT_EQ(steps_of({Collective::Reduce, "two_shot"}, 3, 2),
            (Words{"lend in[0/2] > 1", "complete scratch[1/2] = <0 + <1 + in[1/2]", "lend scratch[1/2] > 0"}));
}

TEST(TwoShot, IsReproducible) {
  EXPECT_TRUE(is_reproducible({Collective::AllReduce, "two_shot"}));
  EXPECT_TRUE(is_reproducible({Collective::Reduce, "two_shot"}));
}

TEST(TwoShot, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "two_shot"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
