// Where the waits of each node lead in the end, compared with a plain search.
#include "control/status/wait_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tutti::control {
namespace {

using Groups = std::vector<WaitGroup>;

TEST(WaitGroups, AChainLeadsToItsLastNode) {
  EXPECT_EQ(wait_groups({{1}, {2}, {}}), (Groups{{.waiting = {0, 1}, .ends = {{2}}}}));
}

TEST(WaitGroups, NodesWithTheSameEndsAreOneGroup) {
  EXPECT_EQ(wait_groups({{}, {0}, {0, 3}, {}, {2}}),
            (Groups{{.waiting = {1}, .ends = {{0}}}, {.waiting = {2, 4}, .ends = {{0}, {3}}}}));
}

TEST(WaitGroups, ACircleIsAnEndUnlessItLeadsOn) {
  EXPECT_EQ(wait_groups({{1}, {0}, {1}}),
            (Groups{{.waiting = {0, 1}, .ends = {{0, 1}}}, {.waiting = {2}, .ends = {{0, 1}}}}));
  EXPECT_EQ(wait_groups({{1}, {0, 2}, {}}), (Groups{{.waiting = {0, 1}, .ends = {{2}}}}));
}

TEST(WaitGroups, ANodeThatWaitsForItselfAloneIsAnEnd) {
  EXPECT_EQ(wait_groups({{0}, {0}}), (Groups{{.waiting = {1}, .ends = {{0}}}}));
  EXPECT_TRUE(wait_groups({}).empty());
  EXPECT_TRUE(wait_groups({{}, {}}).empty());
}

TEST(WaitGroups, LongChainsNeedNoStack) {
  std::vector<Nodes> on(200'000);
  for (uint32_t i = 0; i + 1 < on.size(); ++i) on[i] = {i + 1};
  const Groups groups = wait_groups(on);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].waiting.size(), on.size() - 1);
}

/// What can be reached from a node, itself only by a circle.
std::set<uint32_t> reached(const std::vector<Nodes>& on, uint32_t from) {
  std::set<uint32_t> found;
  Nodes todo = on[from];
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    if (found.insert(at).second) todo.insert(todo.end(), on[at].begin(), on[at].end());
  }
  return found;
}

TEST(WaitGroups, AreThoseOfAPlainSearchInRandomGraphs) {
  std::mt19937 random(1);
  for (int graph = 0; graph < 2000; ++graph) {
    std::vector<Nodes> on(1 + random() % 9);
    for (Nodes& node : on) {
      for (uint32_t edges = random() % 3; edges > 0; --edges) node.push_back(random() % on.size());
    }
    std::vector<std::set<uint32_t>> all;
    for (uint32_t node = 0; node < on.size(); ++node) all.push_back(reached(on, node));
    size_t waiting = 0;
    for (const WaitGroup& group : wait_groups(on)) {
      waiting += group.waiting.size();
      std::set<uint32_t> ends;
      for (const Nodes& end : group.ends) ends.insert(end.begin(), end.end());
      for (const uint32_t node : group.waiting) {
        std::set<uint32_t> expected;
        for (const uint32_t to : all[node]) {  // an end reaches nothing that does not reach it
          const bool is_end =
              std::all_of(all[to].begin(), all[to].end(), [&](uint32_t on_it) { return all[on_it].contains(to); });
          if (is_end) expected.insert(to);
        }
        EXPECT_EQ(ends, expected);
      }
    }
    size_t expected = 0;
    for (uint32_t node = 0; node < on.size(); ++node) {
      expected += std::any_of(all[node].begin(), all[node].end(), [&](uint32_t to) { return to != node; }) ? 1 : 0;
    }
    EXPECT_EQ(waiting, expected);
  }
}

}  // namespace
}  // namespace tutti::control
