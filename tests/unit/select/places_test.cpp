#include "select/places.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "select/decision_table.hpp"
#include "select/machine.hpp"
#include "select/select.hpp"
#include "support/host_of_cores.hpp"
#include "support/scoped_env.hpp"
#include "topo/cluster.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

using topo::NodeKind;

std::vector<Rank> labels(const plan::Grouping& groups) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < groups.ranks(); ++rank) all.push_back(groups.group_of(rank));
  return all;
}

TEST(GroupsByCache, AreThoseOfTheLastCacheThatRanksShare) {
  const topo::Graph graph = test::host_of_cores(2, 2, 2);
  const auto groups = groups_by_cache(graph, place_ranks(graph, 0));
  ASSERT_NE(groups, nullptr);
  EXPECT_EQ(labels(*groups), (std::vector<Rank>{0, 0, 1, 1, 2, 2, 3, 3}));
  RankNodes scattered = place_ranks(graph, 0);
  std::swap(scattered.nodes[1], scattered.nodes[6]);
  EXPECT_EQ(labels(*groups_by_cache(graph, scattered)), (std::vector<Rank>{0, 1, 2, 2, 3, 3, 0, 1}));
}

TEST(GroupsByCache, OfRanksThatShareCoresAreThoseOfTheirCores) {
  const topo::Graph graph = test::host_of_cores(1, 2, 1);
  EXPECT_EQ(labels(*groups_by_cache(graph, place_ranks(graph, 4))), (std::vector<Rank>{0, 1, 0, 1}));
}

TEST(GroupsByCache, AreLeftOutWhereTheyTellNothing) {
  for (const topo::Graph& graph :
       {test::host_of_cores(1, 1, 4), test::host_of_cores(1, 4, 1)}) {  // one cache for all, one for each
    EXPECT_EQ(groups_by_cache(graph, place_ranks(graph, 0)), nullptr);
  }
  const topo::Graph graph = test::host_of_cores(2, 2, 2);
  RankNodes free = place_ranks(graph, 0);
  free.nodes[3] = graph.all(NodeKind::Package).front();  // it may run on cores of two caches
  EXPECT_EQ(groups_by_cache(graph, free), nullptr);
  const topo::Graph two = topo::cluster(graph, 2);
  EXPECT_EQ(groups_by_cache(two, place_ranks(two, 16)), nullptr) << "hosts are the groups";
}

TEST(GroupsByCache, MakeHierarchiesCandidates) {
  const CostInputs inputs = inputs_of(test::host_of_cores(2, 8, 8), 0).inputs;
  EXPECT_EQ(inputs.ranks, 128);
  EXPECT_EQ(inputs.groups->groups(), 16);
  EXPECT_GT(inputs.between.alpha, inputs.inside.alpha);
  EXPECT_TRUE(inputs.between.in_place) << "no network lies between: readers read their writers' memory";
  const auto all = candidates(Collective::AllToAll, 64 << 10, inputs);
  const auto hierarchy = std::find_if(all.begin(), all.end(), [](const Candidate& candidate) {
    return std::string_view(candidate.row.algorithm->name) == "hierarchical";
  });
  ASSERT_NE(hierarchy, all.end());
  EXPECT_EQ(hierarchy->rejected, "");
}

// Of very many ranks only some are looked at: first and last stand for the farthest.
TEST(GroupsByCache, OfSeveralPackagesAreAsFarApartAsThese) {
  const MachineInputs made = inputs_of(test::host_of_cores(2, 12, 8), 0);
  EXPECT_EQ(made.inputs.groups->groups(), 24);
  EXPECT_EQ(made.notes.between, "across sockets");
  EXPECT_GT(made.inputs.between.alpha, inputs_of(test::host_of_cores(1, 12, 8), 0).inputs.between.alpha);
}

TEST(GroupsByCache, AreNotMadeWhereTheUserGivesGroups) {
  const test::ScopedEnv given("TUTTI_GROUPS", "4");
  const auto groups = std::make_shared<const plan::Grouping>(std::vector<Rank>(8, 0));
  EXPECT_EQ(inputs_of(test::host_of_cores(2, 2, 2), 0, groups).inputs.groups, groups);
}

TEST(GroupsByCache, ReachAllRanksWithTheTable) {
  const CostInputs inputs = inputs_of(test::host_of_cores(2, 2, 2), 0).inputs;
  const DecisionTable table(inputs);
  CostInputs others = inputs;  // as another rank begins: all ranks are on one host
  others.groups = std::make_shared<const plan::Grouping>(std::vector<Rank>(8, 0));
  const DecisionTable read = DecisionTable::parse(table.text(), others);
  EXPECT_EQ(labels(*read.groups()), labels(*inputs.groups));
  EXPECT_EQ(read.text(), table.text());
  const std::string good = "\"groups\":[0,0,1,1,2,2,3,3]";
  ASSERT_NE(table.text().find(good), std::string::npos) << table.text();
  for (const char* const bad : {"\"groups\":[0,0,1]", "\"groups\":[0,0,1,1,2,2,3,8]", "\"groups\":[0,0,1,1,2,2,3,-1]",
                                "\"groups\":7", "\"groups\":[\"a\",0,1,1,2,2,3,3]", "\"group\":[]"}) {
    std::string text = table.text();
    text.replace(text.find(good), good.size(), bad);
    EXPECT_THROW(DecisionTable::parse(text, others), Error) << bad;
  }
}

}  // namespace
}  // namespace tutti::select
