#include <gtest/gtest.h>

#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Chain, BroadcastGoesDown) {
  const Candidate broadcast{Collective::Broadcast, "chain"};
  EXPECT_EQ(steps_of(broadcast, 3, 0), (Words{"lend in > 1", "copy out = in"}));
  EXPECT_EQ(steps_of(broadcast, 3, 1), (Words{"recv out < 0", "lend out > 2"}));
  EXPECT_EQ(steps_of(broadcast, 3, 2), Words{"recv out < 1"});
}

TEST(Chain, ReduceComesUp) {
  const Candidate reduce{Collective::Reduce, "chain"};
  EXPECT_EQ(steps_of(reduce, 3, 2), Words{"lend in > 1"});
  EXPECT_EQ(steps_of(reduce, 3, 1), (Words{"fold scratch = in + <2", "send scratch > 0"}));
  EXPECT_EQ(steps_of(reduce, 3, 0), Words{"complete out = in + <1"});
}

TEST(Chain, AllReduceGoesUpAndDownOnLanesOfTheirOwn) {
  const Candidate all_reduce{Collective::AllReduce, "chain"};
  EXPECT_EQ(steps_of(all_reduce, 3, 2), (Words{"lend in > 1", "|", "recv out < 1"}));
  EXPECT_EQ(steps_of(all_reduce, 3, 1),
            (Words{"fold scratch = in + <2", "lend scratch > 0", "|", "recv out < 0", "lend out > 2"}));
  EXPECT_EQ(steps_of(all_reduce, 3, 0), (Words{"complete out = in + <1", "|", "after 0: lend out > 1"}));
}

TEST(Chain, OfOneIsACopy) {
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_EQ(steps_of({c, "chain"}, 1, 0), Words{"copy out = in"}) << name_of(c);
  }
}

TEST(Chain, FollowsOneWindowWithTheNext) {  // n − 1 messages for the first, one more for each of the others
  EXPECT_EQ(time_of(Candidate{Collective::Broadcast, "chain"}.plans(9), 32), 8 + 31);
  EXPECT_EQ(time_of(Candidate{Collective::Reduce, "chain"}.plans(9), 32), 8 + 31);
  EXPECT_EQ(time_of(Candidate{Collective::AllReduce, "chain"}.plans(9), 32), 16 + 31);
}

TEST(Chain, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "chain"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
