#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Pairwise, SendsToTheKthAfterAndHearsFromTheKthBefore) {
  EXPECT_EQ(steps_of({Collective::AllToAll, "pairwise"}, 3, 1),
            (Words{"lend in#2 > 2", "copy out#1 = in#1", "recv out#0 < 0", "lend in#0 > 0", "recv out#2 < 2"}));
}

TEST(Pairwise, LendsWhatItCan) { EXPECT_TRUE(lends_what_it_can({Collective::AllToAll, "pairwise"})); }

}  // namespace
}  // namespace tutti::plan
