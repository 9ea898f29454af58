#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Linear, GatherCollectsAtTheRoot) {
  EXPECT_EQ(steps_of({Collective::Gather, "linear"}, 3, 0),
            (Words{"copy out#0 = in", "recv out#1 < 1", "recv out#2 < 2"}));
  EXPECT_EQ(steps_of({Collective::Gather, "linear"}, 3, 2), Words{"lend in > 0"});
}

TEST(Linear, ScatterDealsFromTheRoot) {
  EXPECT_EQ(steps_of({Collective::Scatter, "linear"}, 3, 0),
            (Words{"lend in#1 > 1", "lend in#2 > 2", "copy out = in#0"}));
  EXPECT_EQ(steps_of({Collective::Scatter, "linear"}, 3, 1), Words{"recv out < 0"});
}

TEST(Linear, LendsWhatItCan) {
  EXPECT_TRUE(lends_what_it_can({Collective::Gather, "linear"}));
  EXPECT_TRUE(lends_what_it_can({Collective::Scatter, "linear"}));
}

}  // namespace
}  // namespace tutti::plan
