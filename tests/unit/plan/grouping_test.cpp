#include "plan/grouping.hpp"

#include "plan/order.hpp"

#include <gtest/gtest.h>

#include "support/shapes.hpp"
#include "tutti/error.hpp"

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

TEST(Grouping, KnowsEveryRanksGroupAndIndex) {
  for (const test::Labels& labels : test::all_groupings(6)) {
    const Grouping groups(labels);
    for (Rank r = 0; r < groups.ranks(); ++r) {
      EXPECT_EQ(groups.member(groups.group_of(r), groups.place_of(r)), r);
      EXPECT_EQ(groups.group_of(r), labels[static_cast<size_t>(r)]);  // these are numbered by first members already
    }
  }
}

TEST(Grouping, OfNoRanksIsEmpty) {
  const Grouping groups{Ranks()};
  EXPECT_EQ(groups.ranks(), 0);
  EXPECT_EQ(groups.groups(), 0);
}

TEST(Grouping, HasTwoLevelsIfSomeRanksAreNearerThanOthers) {
  EXPECT_FALSE(Grouping(Ranks{0, 0, 0}).has_two_levels());
  EXPECT_FALSE(Grouping(Ranks{0, 1, 2}).has_two_levels());
  EXPECT_FALSE(Grouping(Ranks{0}).has_two_levels());
  EXPECT_TRUE(Grouping(Ranks{0, 1, 1}).has_two_levels());
}

TEST(Grouping, SeenFromARootHasTheSameGroups) {
  for (const test::Labels& labels : test::all_groupings(6)) {
    const Grouping groups(labels);
    for (Rank root = 0; root < 6; ++root) {
      const Grouping seen = *RankOrder().seen(std::make_shared<const Grouping>(groups), root);
      EXPECT_EQ(seen.group_of(0), 0);
      for (Rank a = 0; a < 6; ++a) {
        for (Rank b = 0; b < 6; ++b) {
          EXPECT_EQ(seen.group_of(a) == seen.group_of(b),
                    groups.group_of((a + root) % 6) == groups.group_of((b + root) % 6));
        }
      }
    }
  }
}

TEST(Grouping, LabelsAsTextAreASizeOrAList) {
  EXPECT_EQ(parse_labels("4", 10, "X"), (Ranks{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(parse_labels("1", 2, "X"), (Ranks{0, 1}));
  EXPECT_EQ(parse_labels("99", 2, "X"), (Ranks{0, 0}));
  EXPECT_EQ(parse_labels("0,7,0", 3, "X"), (Ranks{0, 7, 0}));
  for (const char* wrong : {"", "0", "-1", "x", "1,", ",1", "1,,2", "0,0,x", "0 0", "99999999999", "0,1", "0,1,2,3"}) {
    try {
      parse_labels(wrong, 3, "TUTTI_GROUPS");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_EQ(std::string(error.what()).rfind("TUTTI_GROUPS ", 0), 0u) << error.what();
    }
  }
}

TEST(Shapes, AreAllGroupingsOfFewRanks) {  // Bell numbers
  EXPECT_EQ(test::all_groupings(1).size(), 1u);
  EXPECT_EQ(test::all_groupings(4).size(), 15u);
  EXPECT_EQ(test::all_groupings(5).size(), 52u);
}

}  // namespace
}  // namespace tutti::plan
