#include "exec/host/wait.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::exec {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

bool spins(const Cores& mine, const std::vector<Cores>& all, double quota = kNoQuota) {
  return backoff_for(mine, all, quota).spins > 0;
}

TEST(Backoff, RanksWithACoreEachSpin) {
  EXPECT_TRUE(spins({0, 1}, {{0, 1}, {0, 1}}));
  EXPECT_TRUE(spins({0}, {{0}, {1}})) << "each bound to its own";
  EXPECT_TRUE(spins({0, 1}, {{0, 1}, {2, 3}, {4, 5}}));
}

TEST(Backoff, RanksThatShareCoresDoNot) {
  EXPECT_FALSE(spins({0, 1}, {{0, 1}, {0, 1}, {0, 1}}));
  EXPECT_FALSE(spins({0}, {{0}, {0}, {1}, {2}})) << "two on one core, though others are free";
  EXPECT_FALSE(spins({0, 1}, {{0, 1}, {0}, {1}}));
}

TEST(Backoff, AQuotaCountsAsFewerCores) {
  EXPECT_FALSE(spins({0, 1, 2, 3}, {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}, 1.5));
  EXPECT_TRUE(spins({0, 1, 2, 3}, {{0, 1, 2, 3}, {0, 1, 2, 3}}, 1.5));
}

}  // namespace
}  // namespace tutti::exec
