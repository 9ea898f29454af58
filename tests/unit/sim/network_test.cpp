#include "sim/network.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tutti/error.hpp"

namespace tutti::sim {
namespace {

const std::vector<SharedResource> kLinks = {{"a", 1e9}, {"b", 2e9}, {"c", 4e9}};
const std::vector<std::vector<uint32_t>> kRoutes = {{0}, {0, 1}, {1}, {2}};

/// When each message ends, if all start together: message i has `bytes[i]` and uses kRoutes[i].
std::vector<double> ends(Network& network, const std::vector<double>& bytes) {
  std::map<uint32_t, size_t> numbers;
  for (size_t i = 0; i < bytes.size(); ++i) numbers[network.start(kRoutes[i], bytes[i])] = i;
  std::vector<double> ends(bytes.size());
  std::vector<uint32_t> ended;
  while (!network.idle()) {
    ended.clear();
    const double now = network.advance(1e300, ended);
    for (const uint32_t number : ended) ends[numbers.at(number)] = now;
  }
  return ends;
}

TEST(Network, MessagesShareTheLinksThatTheyUse) {
  const auto network = equal_shares(kLinks);
  // Two on a get half of it each; the one on b alone gets half of b, though the other leaves three quarters.
  const auto times = ends(*network, {1e6, 1e6, 1e6, 1e6});
  EXPECT_NEAR(times[0], 2e-3, 1e-9);
  EXPECT_NEAR(times[1], 2e-3, 1e-9);
  EXPECT_NEAR(times[2], 1e-3, 1e-9);
  EXPECT_NEAR(times[3], 0.25e-3, 1e-9) << "others do not matter";
}

TEST(Network, WhatIsLeftGetsTheWholeLink) {
  const auto network = equal_shares(kLinks);
  const auto times = ends(*network, {1e6, 3e6});
  EXPECT_NEAR(times[0], 2e-3, 1e-9);
  EXPECT_NEAR(times[1], 4e-3, 1e-9) << "1 MB in the first 2 ms at half the rate, then 2 MB at the full rate";
}

TEST(Network, TimeGoesNoFurtherThanAsked) {
  const auto network = equal_shares(kLinks);
  std::vector<uint32_t> ended;
  network->start(kRoutes[0], 1e6);
  EXPECT_DOUBLE_EQ(network->advance(0.4e-3, ended), 0.4e-3);
  EXPECT_TRUE(ended.empty());
  EXPECT_NEAR(network->advance(1, ended), 1e-3, 1e-12);
  EXPECT_EQ(ended.size(), 1u);
  EXPECT_TRUE(network->idle());
}

TEST(Network, SimGridSharesByMaxMinFairness) {
  if (simgrid_version().empty()) {
    EXPECT_THROW(with_simgrid(kLinks, kRoutes, [](Network&) {}), Error);
    GTEST_SKIP() << "no SimGrid in this build";
  }
  for (int run = 0; run < 2; ++run) {  // one engine after the other
    std::vector<double> times;
    with_simgrid(kLinks, kRoutes, [&](Network& network) { times = ends(network, {1e6, 1e6, 1e6, 1e6}); });
    EXPECT_NEAR(times[0], 2e-3, 1e-8);
    EXPECT_NEAR(times[1], 2e-3, 1e-8);
    EXPECT_NEAR(times[2], 1e-3 / 1.5, 1e-8) << "it gets what the message on a and b leaves of b";
    EXPECT_NEAR(times[3], 0.25e-3, 1e-8);
  }
}

TEST(Network, SimGridPassesExceptionsOn) {
  if (simgrid_version().empty()) GTEST_SKIP() << "no SimGrid in this build";
  EXPECT_THROW(with_simgrid(kLinks, kRoutes, [](Network&) { throw Error(Code::InternalError, "x"); }), Error);
}

}  // namespace
}  // namespace tutti::sim
