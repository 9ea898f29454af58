#include "plan/grouping.hpp"

#include <gtest/gtest.h>

#include "support/shapes.hpp"

namespace tutti::plan {
namespace {

using Ranks = std::vector<Rank>;

Ranks members_of(const Grouping& groups, Rank group) {
  return {groups.members(group).begin(), groups.members(group).end()};
}

TEST(Grouping, NumbersGroupsByTheirFirstMembers) {
  const Grouping groups(Ranks{9, -1, 9, 4, 4, 9});
  EXPECT_EQ(groups.ranks(), 6);
  EXPECT_EQ(groups.groups(), 3);
  EXPECT_EQ(members_of(groups, 0), (Ranks{0, 2, 5}));
  EXPECT_EQ(members_of(groups, 1), Ranks{1});
  EXPECT_EQ(members_of(groups, 2), (Ranks{3, 4}));
  EXPECT_EQ(groups.smallest(), 1);
  EXPECT_EQ(groups.largest(), 3);
}

TEST(Grouping, KnowsEveryRanksGroupAndPlace) {
  for (const test::Labels& labels : test::all_groupings(6)) {
    const Grouping groups(labels);
    for (Rank r = 0; r < groups.ranks(); ++r) {
      EXPECT_EQ(groups.member(groups.group_of(r), groups.place_of(r)), r);
      EXPECT_EQ(groups.group_of(r), labels[static_cast<size_t>(r)]);  // these are numbered by first members already
    }
  }
}

TEST(Grouping, OfNobodyIsEmpty) {
  const Grouping groups{Ranks()};
  EXPECT_EQ(groups.ranks(), 0);
  EXPECT_EQ(groups.groups(), 0);
}

TEST(Shapes, AreAllGroupingsOfFewRanks) {  // Bell numbers
  EXPECT_EQ(test::all_groupings(1).size(), 1u);
  EXPECT_EQ(test::all_groupings(4).size(), 15u);
  EXPECT_EQ(test::all_groupings(5).size(), 52u);
}

}  // namespace
}  // namespace tutti::plan
