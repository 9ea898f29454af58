#include "exec/wait.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tutti::exec {
namespace {

TEST(Backoff, OnlyRanksWithACoreEachSpin) {
  EXPECT_GT(backoff_for(false).spins, 0u);
  EXPECT_EQ(backoff_for(true).spins, 0u);
}

TEST(Waiter, CountsTheTimeOfSlowYields) {
  const Backoff backoff{.spins = 0};
  Waiter waiter(backoff);
  waiter.turn();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as a yield to other processes may take
  waiter.turn();
  EXPECT_GE(waiter.stalled(), 1e-3);
}

TEST(Waiter, ForgetsAStallWithProgress) {
  const Backoff backoff{.spins = 0, .yield_for = 0};
  Waiter waiter(backoff);
  for (uint32_t i = 0; i < machine_constants().untimed_yields; ++i) EXPECT_EQ(waiter.turn(), 0) << "it sleeps later";
  while (waiter.stalled() == 0) waiter.turn();
  waiter.progressed();
  EXPECT_EQ(waiter.stalled(), 0);
  waiter.turn();
  EXPECT_EQ(waiter.stalled(), 0) << "of the wait before";
}

}  // namespace
}  // namespace tutti::exec
