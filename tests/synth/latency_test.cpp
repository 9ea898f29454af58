// The latency of small calls: no schedule is faster than the bound, by trying them all.
#include "synth/latency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/format.hpp"

namespace tutti::synth {
namespace {

/// The fastest broadcast there is: every order in which ranks that know tell others.
double brute_force(const Postal& postal, Rank root) {
  const Rank n = postal.ranks();
  double best = 1e300;
  std::vector<double> free(static_cast<size_t>(n), -1);
  free[static_cast<size_t>(root)] = 0;
  const std::function<void(Rank, double)> tell = [&](Rank known, double last) {
    if (last >= best) return;
    if (known == n) {
      best = last;
      return;
    }
    for (Rank from = 0; from < n; ++from) {
      const double begin = free[static_cast<size_t>(from)];
      if (begin < 0) continue;
      for (Rank to = 0; to < n; ++to) {
        if (free[static_cast<size_t>(to)] >= 0) continue;
        const double arrives = begin + postal.latency(from, to);
        free[static_cast<size_t>(to)] = arrives;
        free[static_cast<size_t>(from)] = begin + postal.gap(from, to);
        tell(known + 1, std::max(last, arrives));
        free[static_cast<size_t>(from)] = begin;
        free[static_cast<size_t>(to)] = -1;
      }
    }
  };
  tell(1, 0);
  return best;
}

Postal random_postal(Rank n, std::mt19937& dice, double share, double gap) {
  std::vector<double> latency(static_cast<size_t>(n * n));
  for (Rank a = 0; a < n; ++a) {
    for (Rank b = 0; b < a; ++b) {
      // A few values, some of them far apart: hosts and what is in them.
      const double value = dice() % 3 == 0 ? 10 + static_cast<double>(dice() % 5) : 1 + static_cast<double>(dice() % 3);
      latency[static_cast<size_t>(a * n + b)] = latency[static_cast<size_t>(b * n + a)] = value;
    }
  }
  return {n, std::move(latency), share, gap};
}

/// `hosts` hosts of `each` ranks. A message keeps its sender busy for `share` of its latency.
Postal of_hosts(Rank hosts, Rank each, double near, double far, double share) {
  const Rank n = hosts * each;
  std::vector<double> latency(static_cast<size_t>(n * n));
  for (Rank a = 0; a < n; ++a) {
    for (Rank b = 0; b < n; ++b) latency[static_cast<size_t>(a * n + b)] = a / each == b / each ? near : far;
  }
  return {n, std::move(latency), share};
}

TEST(Latency, OfAlikePairsIsThatOfFibonacciTrees) {
  // λ = 2: 1, 1, 2, 3, 5, 8 ranks know after 0, 1, 2, 3, 4, 5 gaps (Bar-Noy & Kipnis).
  EXPECT_DOUBLE_EQ(postal_time(1, 2, 1), 0);
  EXPECT_DOUBLE_EQ(postal_time(2, 2, 1), 2);
  EXPECT_DOUBLE_EQ(postal_time(3, 2, 1), 3);
  EXPECT_DOUBLE_EQ(postal_time(5, 2, 1), 4);
  EXPECT_DOUBLE_EQ(postal_time(6, 2, 1), 5);
  EXPECT_DOUBLE_EQ(postal_time(8, 2, 1), 5);
  EXPECT_DOUBLE_EQ(postal_time(9, 2, 1), 6);
  // λ = 1: binomial trees. No gap: a star.
  for (Rank n = 2; n <= 64; ++n) {
    Rank rounds = 0;
    while (Rank{1} << rounds < n) ++rounds;
    EXPECT_DOUBLE_EQ(postal_time(n, 1, 1), rounds) << n;
    EXPECT_DOUBLE_EQ(postal_time(n, 3, 0), 3) << n;
  }
}

TEST(Latency, IsReachedWhereAllPairsAreAlike) {
  for (Rank n = 2; n <= 40; ++n) {
    for (const double gap : {0.25, 1.0, 3.0}) {
      const Postal postal(n, 3, gap);
      const LatencyTree tree = fastest_tree(postal, n / 2);
      EXPECT_NEAR(time_of(tree, postal), postal_time(n, 3, gap), 1e-9) << n << " ranks, gap " << gap;
      EXPECT_NEAR(least_latency(postal, n / 2), postal_time(n, 3, gap), 1e-9);
      EXPECT_NEAR(least_latency(postal), postal_time(n, 3, gap), 1e-9);
    }
  }
}

TEST(Latency, NoBroadcastIsFasterThanTheBoundAndTheTreeIsTheFastest) {
  std::mt19937 dice(39);
  for (int round = 0; round < 60; ++round) {
    const Rank n = 2 + static_cast<Rank>(dice() % 4);
    for (const auto& [share, gap] : {std::pair(0.0, 0.7), std::pair(0.4, 0.0), std::pair(1.0, 0.0)}) {
      const Postal postal = random_postal(n, dice, share, gap);
      const Rank root = static_cast<Rank>(dice() % static_cast<unsigned>(n));
      const double best = brute_force(postal, root);
      EXPECT_LE(least_latency(postal, root), best * (1 + 1e-9)) << n << " ranks, round " << round;
      const double found = time_of(fastest_tree(postal, root), postal);
      EXPECT_NEAR(found, best, 1e-9) << n << " ranks, round " << round << ", share " << share;
    }
  }
}

TEST(Latency, BetweenHostsFollowsFromTheHostsAndNotFromTheDiameterAlone) {
  // Eight hosts of one rank, a message keeps its sender busy for its own latency: three rounds.
  EXPECT_DOUBLE_EQ(least_latency(of_hosts(8, 1, 0.1, 10, 1), 0), 30);
  // All four ranks of a host may tell other hosts: 1, 5, 25 hosts know after 0, 1, 2 rounds.
  EXPECT_DOUBLE_EQ(least_latency(of_hosts(5, 4, 0.1, 10, 1), 0), 10);
  EXPECT_DOUBLE_EQ(least_latency(of_hosts(6, 4, 0.1, 10, 1), 0), 20);
}

TEST(Latency, OfAllRanksIsThatOfTheFarthestPair) {
  // Three ranks in a row: from one end to the other takes 20, though clusters know sooner.
  const Postal row(3, {0, 10, 20, 10, 0, 10, 20, 10, 0}, 0.1);
  EXPECT_DOUBLE_EQ(least_latency(row), 20);
  EXPECT_DOUBLE_EQ(least_latency(row, 0), 20);
  EXPECT_LT(least_latency(row, 1), 20);
}

TEST(Latency, TreesOfHostsComeNearTheBound) {
  for (const double share : {0.02, 0.3, 1.0}) {
    const Postal postal = of_hosts(4, 8, 1, 20, share);
    EXPECT_LE(time_of(fastest_tree(postal, 3), postal), 1.25 * least_latency(postal, 3)) << "share " << share;
  }
}

TEST(Latency, ATreeReachesAllRanksOnce) {
  std::mt19937 dice(7);
  for (const Rank n : {1, 2, 7, 13, 33}) {
    const Postal postal = random_postal(n, dice, 0.3, 0);
    const LatencyTree tree = fastest_tree(postal, n - 1);
    std::vector<int> told(static_cast<size_t>(n));
    std::vector<Rank> reached = {n - 1};
    for (size_t i = 0; i < reached.size(); ++i) {
      for (const Rank child : tree.children[static_cast<size_t>(reached[i])]) {
        EXPECT_EQ(tree.parents[static_cast<size_t>(child)], reached[i]);
        ++told[static_cast<size_t>(child)];
        reached.push_back(child);
      }
    }
    EXPECT_EQ(reached.size(), static_cast<size_t>(n));
    EXPECT_LE(*std::max_element(told.begin(), told.end()), 1);
  }
}

}  // namespace
}  // namespace tutti::synth
