// Which rank keeps whose copy: on another host, wherever that is possible.
#include "train/checkpoint/keepers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace tutti::train {
namespace {

std::vector<std::string> hosts_in(const std::string& letters) {
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.emplace_back(1, letter);
  return hosts;
}

TEST(Keepers, AreOnOtherHosts) {
  EXPECT_EQ(keepers(hosts_in("abacab")), (std::vector<int>{1, 0, 5, 4, 3, 2}));
  EXPECT_EQ(keepers(hosts_in("aabb")), (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(keepers(hosts_in("ab")), (std::vector<int>{1, 0}));
}

TEST(Keepers, OfOneHostAreAnyOtherRank) {
  EXPECT_EQ(keepers(hosts_in("aaaa")), (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(keepers(hosts_in("aaa")), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(keepers(hosts_in("a")), (std::vector<int>{0}));
  EXPECT_TRUE(keepers({}).empty());
}

/// All ways to put up to 7 ranks on up to 3 hosts.
TEST(Keepers, KeepOneCopyEachAndAsFewAsPossibleOfTheirOwnHost) {
  for (size_t ranks = 2; ranks <= 7; ++ranks) {
    std::string letters(ranks, 'a');
    const std::function<void(size_t)> place = [&](size_t rank) {
      if (rank == ranks) {
        const std::vector<int> kept = keepers(hosts_in(letters));
        ASSERT_EQ(std::set<int>(kept.begin(), kept.end()).size(), ranks) << letters;
        ptrdiff_t largest = 0, near = 0;
        for (size_t i = 0; i < ranks; ++i) {
          largest = std::max(largest, std::count(letters.begin(), letters.end(), letters[i]));
          near += letters[i] == letters[static_cast<size_t>(kept[i])] ? 1 : 0;
          ASSERT_NE(kept[i], static_cast<int>(i)) << letters;
        }
        ASSERT_EQ(near, std::max<ptrdiff_t>(0, 2 * largest - static_cast<ptrdiff_t>(ranks))) << letters;
        return;
      }
      for (const char host : {'a', 'b', 'c'}) {
        letters[rank] = host;
        place(rank + 1);
      }
    };
    place(0);
  }
}

}  // namespace
}  // namespace tutti::train
