#include <gtest/gtest.h>

#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;

TEST(Dissemination, TellsAtDoublingDistances) {
  EXPECT_EQ(steps_of({Collective::Barrier, "dissemination"}, 5, 4),
            (Words{"send nothing > 0", "recv nothing < 3", "send nothing > 1", "recv nothing < 2", "send nothing > 3",
                   "recv nothing < 0"}));
}

TEST(Dissemination, OfOneDoesNothing) { EXPECT_EQ(steps_of({Collective::Barrier, "dissemination"}, 1, 0), Words{}); }

}  // namespace
}  // namespace tutti::plan
