#include "exec/wait.hpp"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

TEST(Backoff, OnlyRanksWithACoreEachSpin) {
  EXPECT_GT(backoff_for(false).spins, 0u);
  EXPECT_EQ(backoff_for(true).spins, 0u);
}

}  // namespace
}  // namespace tutti::exec
