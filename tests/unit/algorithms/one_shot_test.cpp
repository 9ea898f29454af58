#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(OneShot, AllReducePublishesOnceAndFoldsInRankOrder) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "one_shot"}, 4, 2),
            (Words{"lend out of place in > 3 0 1", "complete out = <0 + <1 + in + <3"}));
}

TEST(OneShot, AllGatherPublishesOnce) {
  EXPECT_EQ(steps_of({Collective::AllGather, "one_shot"}, 3, 1),
            (Words{"lend in > 2 0", "copy out#1 = in", "recv out#2 < 2", "recv out#0 < 0"}));
}

TEST(OneShot, ReduceScatterSendsEachBlockToItsOwner) {
  EXPECT_EQ(steps_of({Collective::ReduceScatter, "one_shot"}, 3, 1),
            (Words{"lend in#2 > 2", "lend in#0 > 0", "complete out = <0 + in#1 + <2"}));
}

TEST(OneShot, AllToAllSendsEverythingBeforeItReceives) {
  EXPECT_EQ(steps_of({Collective::AllToAll, "one_shot"}, 3, 1),
            (Words{"lend in#2 > 2", "lend in#0 > 0", "copy out#1 = in#1", "recv out#0 < 0", "recv out#2 < 2"}));
}

TEST(OneShot, BroadcastAndReduceAreTheRootsWork) {
  EXPECT_EQ(steps_of({Collective::Broadcast, "one_shot"}, 3, 0), (Words{"lend in > 1 2", "copy out = in"}));
  EXPECT_EQ(steps_of({Collective::Broadcast, "one_shot"}, 3, 2), Words{"recv out < 0"});
  EXPECT_EQ(steps_of({Collective::Reduce, "one_shot"}, 3, 0), Words{"complete out = in + <1 + <2"});
  EXPECT_EQ(steps_of({Collective::Reduce, "one_shot"}, 3, 2), Words{"lend in > 0"});
}

TEST(OneShot, IsReproducible) {
  for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
    EXPECT_TRUE(is_reproducible({c, "one_shot"})) << name_of(c);
  }
}

TEST(OneShot, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                             Collective::AllToAll, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "one_shot"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
