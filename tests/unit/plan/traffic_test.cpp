// What plans send to each other, and their longest chains of messages.
#include "plan/traffic.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "plan/algorithm.hpp"
#include "plan/verify.hpp"

namespace tutti::plan {
namespace {

std::vector<RankPlan> plans_of(Collective collective, const char* name, Rank ranks) {
  return generate_all(*find_algorithm(collective, name), ranks);
}

/// Messages that arrive after a second and keep their sender busy for a quarter of it.
double seconds(const std::vector<RankPlan>& plans) {
  return longest_chain(plans, [](Rank, Rank, double) { return MessageCost{1, 0.25}; });
}

TEST(Flows, AreWhatTheVerifierCounts) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Algorithm* algorithm : algorithms_of(collective)) {
      if (!algorithm->allows({collective, 6})) continue;
      const std::vector<RankPlan> plans = generate_all(*algorithm, 6);
      std::map<std::pair<Rank, Rank>, double> counted, flows;
      for (const LinkCount& link : count(plans).links) counted[{link.from, link.to}] += link.sent.value();
      for (const Flow& flow : flows_of(plans)) flows[{flow.from, flow.to}] += flow.amount;
      ASSERT_EQ(flows.size(), counted.size()) << algorithm->name;
      for (const auto& [pair, amount] : counted) EXPECT_NEAR(flows[pair], amount, 1e-9) << algorithm->name;
    }
  }
}

TEST(Published, CountsAMessageToManyReadersOnce) {
  EXPECT_DOUBLE_EQ(published_by(plans_of(Collective::AllGather, "one_shot", 5).front()), 1);
  EXPECT_DOUBLE_EQ(published_by(plans_of(Collective::AllToAll, "one_shot", 5).front()), 4);
}

TEST(LongestChain, HasARoundForEachMessageThatWaitsForAnother) {
  EXPECT_DOUBLE_EQ(seconds(plans_of(Collective::AllGather, "ring", 5)), 4);
  EXPECT_DOUBLE_EQ(seconds(plans_of(Collective::AllReduce, "recursive_doubling", 8)), 3);
}

TEST(LongestChain, TakesItsSenderTimeForEachMessage) {
  EXPECT_DOUBLE_EQ(seconds(plans_of(Collective::Broadcast, "one_shot", 2)), 1);
  EXPECT_DOUBLE_EQ(seconds(plans_of(Collective::Broadcast, "one_shot", 5)), 1 + 3 * 0.25)
      << "the last of four messages";
}

TEST(LongestChain, TakesAReceiverOfManyTimeForEachMessage) {
  EXPECT_DOUBLE_EQ(seconds(plans_of(Collective::Reduce, "one_shot", 5)), 1 + 3 * 0.25) << "four arrive at once";
}

/// How long rank 1 is busy with all three of its messages is no matter of the chain.
TEST(LongestChain, AddsUpMessagesThatWaitForEachOther) {
  const auto bytes = [](Rank from, Rank, double amount) { return MessageCost{from == 1 ? 10 * amount : amount, 0}; };
  EXPECT_NEAR(longest_chain(plans_of(Collective::AllGather, "ring", 4), bytes), 1 + 10 + 1, 1e-9);
}

}  // namespace
}  // namespace tutti::plan
