#include "sim/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

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

TEST(Network, FairSharesGiveAwayWhatAMessageCannotUse) {
  const auto network = fair_shares(kLinks);
  const auto times = ends(*network, {1e6, 1e6, 1e6, 1e6});
  EXPECT_NEAR(times[0], 2e-3, 1e-9);
  EXPECT_NEAR(times[1], 2e-3, 1e-9);
  EXPECT_NEAR(times[2], 1e-3 / 1.5, 1e-9) << "it gets what the message on a and b leaves of b";
  EXPECT_NEAR(times[3], 0.25e-3, 1e-9);
}

TEST(Network, FairSharesAreGivenAnewWhenMessagesEnd) {
  const auto network = fair_shares(kLinks);
  const auto times = ends(*network, {1e6, 3e6});
  EXPECT_NEAR(times[0], 2e-3, 1e-9);
  EXPECT_NEAR(times[1], 4e-3, 1e-9);
}

/// By the definition: all rates grow alike, until a link is full, whose messages keep theirs.
std::vector<double> fair_rates(const std::vector<SharedResource>& links,
                               const std::vector<std::vector<uint32_t>>& messages) {
  std::vector<double> rates(messages.size(), -1), left;
  for (const SharedResource& link : links) left.push_back(link.rate);
  for (size_t fixed = 0; fixed < messages.size();) {
    std::vector<double> users(links.size());
    for (size_t m = 0; m < messages.size(); ++m) {
      for (const uint32_t r : messages[m]) users[r] += rates[m] < 0 ? 1 : 0;
    }
    double level = 1e300;
    uint32_t full = 0;
    for (uint32_t r = 0; r < links.size(); ++r) {
      if (users[r] > 0 && left[r] / users[r] < level) level = left[full = r] / users[r];
    }
    for (size_t m = 0; m < messages.size(); ++m) {
      if (rates[m] >= 0 || std::find(messages[m].begin(), messages[m].end(), full) == messages[m].end()) continue;
      rates[m] = level;
      for (const uint32_t r : messages[m]) left[r] -= level;
      ++fixed;
    }
  }
  return rates;
}

/// Messages that start at other times on other links, beside the definition.
TEST(Network, FairSharesAreMaxMinFair) {
  std::mt19937 random(7);
  const auto any = [&](size_t below) { return static_cast<size_t>(random() % below); };
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<SharedResource> links;
    for (size_t i = 0; i < 2 + any(6); ++i) links.push_back({"", 1e9 * static_cast<double>(1 + any(9))});
    const auto network = fair_shares(links);
    std::vector<std::vector<uint32_t>> routes;  // of the messages under way …
    std::vector<double> left;                   // … their bytes …
    std::vector<uint32_t> numbers, ended;       // … and numbers
    double now = 0;
    for (int step = 0; step < 60; ++step) {
      for (size_t more = any(4); more > 0 && step < 40; --more) {
        std::set<uint32_t> route;
        while (route.size() < 1 + any(3)) route.insert(static_cast<uint32_t>(any(links.size())));
        routes.emplace_back(route.begin(), route.end());
        left.push_back(1e5 * static_cast<double>(1 + any(20)));
        numbers.push_back(network->start(routes.back(), left.back()));
      }
      const std::vector<double> rates = fair_rates(links, routes);
      double soonest = 1e300;
      for (size_t m = 0; m < rates.size(); ++m) soonest = std::min(soonest, left[m] / rates[m]);
      const double until = any(3) == 0 ? now + 1e-5 : 1e300;
      ended.clear();
      if (routes.empty()) continue;
      const double then = network->advance(until, ended);
      ASSERT_NEAR(then, std::min(until, now + soonest), 1e-9);
      for (size_t m = rates.size(); m-- > 0;) {
        left[m] -= rates[m] * (then - now);
        const bool over = std::find(ended.begin(), ended.end(), numbers[m]) != ended.end();
        ASSERT_EQ(over, left[m] < 1) << m << " has " << left[m] << " bytes left";
        if (!over) continue;
        routes.erase(routes.begin() + static_cast<ptrdiff_t>(m));
        left.erase(left.begin() + static_cast<ptrdiff_t>(m));
        numbers.erase(numbers.begin() + static_cast<ptrdiff_t>(m));
      }
      now = then;
    }
    ASSERT_EQ(network->idle(), routes.empty());
  }
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
