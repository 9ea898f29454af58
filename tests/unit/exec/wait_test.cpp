#include "exec/wait.hpp"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

TEST(Backoff, OnlyRanksWithACoreEachSpin) {
  EXPECT_GT(backoff_for(false).spins, 0u);
  EXPECT_EQ(backoff_for(true).spins, 0u);
}

TEST(Waiter, ForgetsAStallWithProgress) {
  const Backoff backoff{.spins = 0, .yield_for = 0};
  Waiter waiter(backoff);
  for (uint32_t i = 0; i < machine_constants().untimed_yields; ++i) {
    EXPECT_EQ(waiter.turn(), 0);
    EXPECT_EQ(waiter.stalled(), 0);
  }
  while (waiter.stalled() == 0) waiter.turn();
  waiter.progressed();
  EXPECT_EQ(waiter.stalled(), 0);
  waiter.turn();
  EXPECT_EQ(waiter.stalled(), 0) << "of the wait before";
}

}  // namespace
}  // namespace tutti::exec
