// Plans for small calls are proven for many shapes.
#include "synth/small.hpp"

#include <gtest/gtest.h>

#include "base/format.hpp"
#include "plan/traffic.hpp"
#include "plan/verify.hpp"

namespace tutti::synth {
namespace {

/// "" or the fault.
std::string fault(const std::vector<plan::RankPlan>& plans) {
  const plan::Verdict verdict = plan::verify(plans);
  return verdict ? "" : verdict.reason;
}

TEST(SmallPlans, AreProven) {
  for (const Rank n : {2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 18}) {
    const Postal postal(n, 3, 1);
    for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                        Collective::Broadcast, Collective::Reduce}) {
      const auto all = small_plans(collective, postal);
      EXPECT_FALSE(all.empty());
      for (const SmallPlan& one : all) {
        EXPECT_EQ(fault(one.plans), "") << name_of(collective) << " " << one.name << " on " << n << " ranks";
      }
    }
  }
}

TEST(SmallPlans, AnExchangeTakesAPhaseASide) {
  const auto chain = [](const std::vector<plan::RankPlan>& plans) {
    return plan::longest_chain(plans, [](Rank, Rank, double) { return plan::MessageCost{1, 0}; });
  };
  const auto sent = [](const std::vector<plan::RankPlan>& plans, Rank from) {
    int peers = 0;
    for (const plan::Flow& flow : plan::flows_of(plans)) peers += flow.from == from ? 1 : 0;
    return peers;
  };
  for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce}) {
    for (const bool inner_first : {true, false}) {
      const auto one = exchange_plans(collective, {12}, inner_first),
                 mixed = exchange_plans(collective, {4, 3}, inner_first),
                 deep = exchange_plans(collective, {2, 3, 2}, inner_first);
      EXPECT_EQ(chain(one), 1);
      EXPECT_EQ(chain(mixed), 2);
      EXPECT_EQ(chain(deep), 3);
      for (Rank rank = 0; rank < 12; ++rank) {
        EXPECT_EQ(sent(one, rank), 11);
        EXPECT_EQ(sent(mixed, rank), 3 + 2);
        EXPECT_EQ(sent(deep, rank), 1 + 2 + 1);
      }
    }
  }
  EXPECT_EQ(chain(dissemination_plans(7, 2)), 3);
  EXPECT_EQ(chain(dissemination_plans(9, 3)), 2);
  EXPECT_EQ(chain(dissemination_plans(10, 3)), 3);
}

TEST(SmallPlans, TheInnermostSideIsThatOfNeighbours) {
  // Two hosts of four ranks, inner side first: the blocks cross between hosts last, four at a time.
  const auto plans = exchange_plans(Collective::AllGather, {4, 2}, true);
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const bool crosses = flow.from / 4 != flow.to / 4;
    EXPECT_EQ(flow.to % 4 == flow.from % 4, crosses);
    EXPECT_DOUBLE_EQ(flow.amount, crosses ? 4 : 1);
  }
  for (const plan::Flow& flow : plan::flows_of(exchange_plans(Collective::AllGather, {4, 2}, false))) {
    EXPECT_DOUBLE_EQ(flow.amount, flow.from / 4 != flow.to / 4 ? 1 : 2);
  }
}

TEST(SmallPlans, ATreeIsThatOfTheLatencies) {
  const Postal postal(9, 3, 1);
  const LatencyTree tree = fastest_tree(postal, 0);
  const auto cost = [](Rank, Rank, double) { return plan::MessageCost{3, 1}; };
  EXPECT_DOUBLE_EQ(plan::longest_chain(tree_plans(Collective::Broadcast, tree), cost), postal_time(9, 3, 1));
  EXPECT_DOUBLE_EQ(plan::longest_chain(tree_plans(Collective::Reduce, tree), cost), postal_time(9, 3, 1));
  EXPECT_DOUBLE_EQ(plan::longest_chain(tree_plans(Collective::AllReduce, tree), cost), 2 * postal_time(9, 3, 1));
}

TEST(SmallPlans, ATreeTellsItsChildrenAtOnceAndHearsThemInReverse) {
  const LatencyTree tree = fastest_tree(Postal(9, 3, 1), 0);
  const auto down = tree_plans(Collective::Broadcast, tree), up = tree_plans(Collective::Reduce, tree);
  for (size_t rank = 0; rank < tree.children.size(); ++rank) {
    const std::vector<Rank>& children = tree.children[rank];
    std::vector<std::vector<Rank>> told, heard;
    for (const plan::Step& step : down[rank].steps) {
      if (step.kind != plan::StepKind::Send) continue;
      const auto first = down[rank].peers.begin();
      told.emplace_back(first + step.peers.begin, first + step.peers.end);
    }
    for (const plan::Step& step : up[rank].steps) {
      if (step.kind != plan::StepKind::Reduce) continue;
      heard.emplace_back();
      for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
        if (up[rank].operands[i].peer != kNoRank) heard.back().insert(heard.back().begin(), up[rank].operands[i].peer);
      }
    }
    const std::vector<std::vector<Rank>> once(children.empty() ? 0 : 1, children);
    EXPECT_EQ(told, once) << "one publication to all, in the order in which they are told";
    EXPECT_EQ(heard, once) << "those with the longest subtrees are the last to be there";
  }
}

}  // namespace
}  // namespace tutti::synth
