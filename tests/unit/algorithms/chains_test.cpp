// What algorithms say of their chains of messages, and of what goes between groups, against their plans.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/chains.hpp"
#include "support/plans.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

/// As the cost model takes it.
Ratio chain_of(const Cost& cost) { return cost.chain == Ratio(0) ? Ratio(cost.rounds) * cost.message : cost.chain; }

double heaviest(const std::vector<RankPlan>& plans) {
  return heaviest_chain(plans, [](const Passed& message) { return message.length; });
}

TEST(HeaviestChain, FollowsMessagesLanesAndAfter) {
  EXPECT_DOUBLE_EQ(heaviest(Candidate{Collective::Broadcast, "chain"}.plans(5)), 4);
  EXPECT_DOUBLE_EQ(heaviest(Candidate{Collective::AllReduce, "ring"}.plans(4)), 1.5);
  EXPECT_DOUBLE_EQ(heaviest(Candidate{Collective::AllReduce, "two_shot"}.plans(4)), 0.5);
  EXPECT_DOUBLE_EQ(heaviest(Candidate{Collective::AllReduce, "rabenseifner"}.plans(8)), 1.75);
}

class EveryChain : public testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryChain, IsNotHeavierThanSaid) {
  for (const Rank n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 21, 32, 33, 47}) {
    for (const Shape& shape : test::shapes_of(*GetParam(), n)) {
      EXPECT_LE(heaviest(generate_all(*GetParam(), shape)), chain_of(GetParam()->cost(shape)).value() + 1e-9)
          << test::words_of(shape);
    }
  }
}

/// Where messages shrink, as many rounds of the largest would be far too much.
TEST_P(EveryChain, IsSaidToBeWithinAFactorOfTwo) {
  if (std::string_view(GetParam()->name) == "hierarchical") return;  // it says so of each level: see below
  for (const Rank n : {2, 3, 4, 7, 8, 16, 21, 32, 33, 64}) {
    if (!GetParam()->allows({GetParam()->collective, n})) continue;
    const double said = chain_of(GetParam()->cost({GetParam()->collective, n})).value();
    EXPECT_LE(said, 2 * heaviest(generate_all(*GetParam(), n))) << n << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryChain, testing::ValuesIn(test::catalogue()),
                         [](const auto& test) { return test::name_of(*test.param); });

/// What really goes between groups.
Cost::Between counted_between(const std::vector<RankPlan>& plans, const Grouping& groups, double* chain) {
  const auto is_far = [&](Rank a, Rank b) { return groups.group_of(a) != groups.group_of(b); };
  std::map<Rank, Ratio> sent, received;
  for (const LinkCount& link : count(plans).links) {
    if (!is_far(link.from, link.to)) continue;
    sent[link.from] = sent[link.from] + link.sent;
    received[link.to] = received[link.to] + link.sent;
  }
  Cost::Between between;
  for (const auto& [rank, amount] : sent) between.moved = std::max(between.moved, amount);
  for (const auto& [rank, amount] : received) between.moved = std::max(between.moved, amount);
  for (const RankPlan& plan : plans) {
    std::set<std::pair<size_t, std::vector<Rank>>> stages;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (uint32_t s = plan.lanes[lane].steps.begin; s < plan.lanes[lane].steps.end; ++s) {
        const Step& step = plan.steps[s];
        const std::vector<Rank> peers(plan.peers.begin() + step.peers.begin, plan.peers.begin() + step.peers.end);
        const bool leaves = std::any_of(peers.begin(), peers.end(), [&](Rank p) { return is_far(plan.rank, p); });
        if (step.kind == StepKind::Send && leaves) stages.emplace(lane, peers);
      }
    }
    between.stages = std::max(between.stages, static_cast<int64_t>(stages.size()));
  }
  const auto far = [&](const Passed& m, double weight) { return is_far(m.from, m.to) ? weight : 0; };
  between.rounds = std::llround(heaviest_chain(plans, [&](const Passed& m) { return far(m, 1); }));
  *chain = heaviest_chain(plans, [&](const Passed& m) { return far(m, m.length); });
  return between;
}

class EveryCrossing : public testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryCrossing, IsSaidInFullOfAnyGroups) {
  for (const Rank n : {2, 3, 4, 5, 6, 8, 11, 12, 16}) {
    for (const test::Labels& labels : test::some_groupings(n)) {
      const Shape shape{GetParam()->collective, n, test::grouping_of(labels)};
      const auto said = GetParam()->cost(shape).between;
      if (!said) return;  // then the model takes it all
      SCOPED_TRACE(test::words_of(shape));
      double chain = 0;
      const Cost::Between real = counted_between(generate_all(*GetParam(), shape), *shape.groups, &chain);
      EXPECT_GE(said->rounds, real.rounds);
      EXPECT_FALSE(said->moved < real.moved);
      EXPECT_GE(said->stages, real.stages);
      EXPECT_GE(said->chain.value(), chain - 1e-9);
    }
  }
}

TEST_P(EveryCrossing, IsSaidExactlyOfAlignedGroups) {
  for (const Rank n : {4, 8, 16}) {
    for (Rank size = 1; size <= n; size *= 2) {
      test::Labels labels;
      for (Rank r = 0; r < n; ++r) labels.push_back(r / size);
      const Shape shape{GetParam()->collective, n, test::grouping_of(labels)};
      const auto said = GetParam()->cost(shape).between;
      if (!said) return;
      SCOPED_TRACE(test::words_of(shape));
      double chain = 0;
      const Cost::Between real = counted_between(generate_all(*GetParam(), shape), *shape.groups, &chain);
      EXPECT_EQ(said->rounds, real.rounds);
      EXPECT_EQ(said->moved, real.moved);
      EXPECT_EQ(said->stages, real.stages);
      EXPECT_NEAR(said->chain.value(), chain, 1e-9);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryCrossing, testing::ValuesIn(test::catalogue()),
                         [](const auto& test) { return test::name_of(*test.param); });

class EveryHierarchy : public testing::TestWithParam<Collective> {};

TEST_P(EveryHierarchy, SaysWhatGoesBetweenGroups) {
  const Candidate candidate{GetParam(), "hierarchical"};
  for (const Rank n : {2, 3, 4, 5, 8, 12, 17}) {
    for (const Shape& shape : candidate.shapes(n)) {
      SCOPED_TRACE(test::words_of(shape));
      const auto said = candidate.algorithm().cost(shape).between;
      ASSERT_TRUE(said);
      double chain = 0;
      const Cost::Between real = counted_between(candidate.plans(shape), *shape.groups, &chain);
      EXPECT_EQ(said->rounds, real.rounds);
      EXPECT_EQ(said->moved, real.moved);
      EXPECT_EQ(said->stages, real.stages);
      EXPECT_GE(said->chain.value(), chain - 1e-9);
      EXPECT_LE(said->chain.value(), 2 * chain);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hierarchical, EveryHierarchy,
                         testing::Values(Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                         Collective::AllToAll, Collective::Broadcast),
                         [](const auto& test) { return tutti::name_of(test.param); });

}  // namespace
}  // namespace tutti::plan
