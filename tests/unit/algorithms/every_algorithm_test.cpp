// What holds for every algorithm of the catalogue, whatever it is: a new file of algorithms/ is tested here unasked.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "exec/method.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

std::vector<Candidate> catalogue() {
  std::vector<Candidate> all;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Algorithm* a : algorithms_of(collective)) all.push_back({collective, a->name});
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<Candidate> {};

TEST_P(EveryAlgorithm, IsProvenAndSendsWhatItClaims) {
  EXPECT_TRUE(is_proven_and_sends_what_it_claims(GetParam(), ranks_to_prove()));
}
TEST_P(EveryAlgorithm, IsProvenAndSendsWhatItClaimsForAThousandRanks) {
  const Rank many = GetParam().shapes(kManyRanks).empty() ? 1024 : kManyRanks;
  if (GetParam().shapes(many).empty()) return;  // it allows few numbers of ranks
  EXPECT_TRUE(is_proven_and_sends_what_it_claims(GetParam(), {many}));
}
TEST_P(EveryAlgorithm, IsRejectedWhenAStepIsLost) { EXPECT_TRUE(notices_every_lost_step(GetParam())); }
TEST_P(EveryAlgorithm, FoldsInTheCanonicalOrderWhereItClaims) {
  const bool claims = GetParam().algorithm().canonical;
  if (reduces(GetParam().collective)) {
    EXPECT_EQ(static_cast<bool>(is_reproducible(GetParam())), claims);
  } else {
    EXPECT_FALSE(claims);
  }
}
/// One message from each rank to each other, all sent before the first is received, and none of what was received.
bool sends_straight(const RankPlan& plan) {
  std::vector<Rank> to, from;
  for (const Step& step : plan.steps) {
    const auto peers = std::span(plan.peers).subspan(step.peers.begin, step.peers.size());
    if (step.kind == StepKind::Reduce || (step.kind == StepKind::Send && !from.empty())) return false;
    if (step.kind == StepKind::Send) to.insert(to.end(), peers.begin(), peers.end());
    if (step.kind == StepKind::Recv) from.insert(from.end(), peers.begin(), peers.end());
  }
  std::vector<Rank> others;
  for (Rank rank = 0; rank < plan.shape.ranks; ++rank) {
    if (rank != plan.rank) others.push_back(rank);
  }
  std::sort(to.begin(), to.end());
  std::sort(from.begin(), from.end());
  return plan.lanes.size() == 1 && to == others && from == others;
}

TEST_P(EveryAlgorithm, SendsStraightWhereCopyEnginesAcceptIt) {
  for (const Rank ranks : {2, 3, 4, 7, 8}) {
    if (!GetParam().algorithm().allows({GetParam().collective, ranks})) continue;
    const std::vector<RankPlan> plans = GetParam().plans(ranks);
    const auto accepted = [](const RankPlan& plan) { return exec::methods::copy_engine.accepts(plan).empty(); };
    if (!std::all_of(plans.begin(), plans.end(), accepted)) continue;
    for (const RankPlan& plan : plans) EXPECT_TRUE(sends_straight(plan)) << ranks << " ranks";
  }
}

/// Without it, the selector takes a reduce for slower than others whose calls overlap.
TEST_P(EveryAlgorithm, SaysWhatAReduceHandles) {
  if (GetParam().collective != Collective::Reduce) return;
  for (const Rank ranks : {2, 3, 4, 7, 8}) {
    for (const Shape& shape : GetParam().shapes(ranks)) EXPECT_LT(Ratio(0), GetParam().algorithm().cost(shape).handled);
  }
}

/// The selector believes the claim: where messages are read at their address, staging memory limits no window.
TEST_P(EveryAlgorithm, LendsAllItSendsIfItSaysSo) {
  bool all = true;
  for (const Rank ranks : {2, 3, 4, 7, 8}) {
    for (const Shape& shape : GetParam().shapes(ranks)) {
      for (const RankPlan& plan : GetParam().plans(shape)) {
        for (const Step& step : plan.steps) all = all && (step.kind != StepKind::Send || step.lend == Lend::Always);
      }
    }
  }
  EXPECT_TRUE(all || !GetParam().algorithm().lends);
}

TEST(Methods, AcceptWhatTheyCanRunAndNothingElse) {
  const auto accepts = [](const exec::Method& method) {
    std::set<std::string> names;
    for (int c = 0; c < kCollectives; ++c) {
      const auto collective = static_cast<Collective>(c);
      for (const Algorithm* a : algorithms_of(collective)) {
        if (!a->allows({collective, 4})) continue;
        const auto why = [&](Rank rank) { return method.accepts(generate(*a, {collective, 4}, rank)); };
        if (!why(0).empty() || !why(1).empty() || !why(3).empty()) continue;
        names.insert(std::string(name_of(collective)) + ":" + a->name);
      }
    }
    return names;
  };
  EXPECT_EQ(accepts(exec::methods::nvls),
            (std::set<std::string>{"all_gather:one_shot", "all_reduce:two_shot", "reduce_scatter:one_shot"}));
  EXPECT_EQ(accepts(exec::methods::copy_engine), (std::set<std::string>{"all_gather:one_shot", "all_to_all:one_shot"}));
}

TEST_P(EveryAlgorithm, HasASummaryThatFitsALine) {
  const std::string_view summary = GetParam().algorithm().summary;
  EXPECT_FALSE(summary.empty());
  EXPECT_LE(summary.size(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryAlgorithm, testing::ValuesIn(catalogue()), [](const auto& test) {
  return fmt::format("{}_{}", name_of(test.param.collective), test.param.name);
});

TEST(Catalogue, KnowsWhatNeedsGroups) {
  EXPECT_TRUE(needs_groups(*find_algorithm(Collective::AllReduce, "hierarchical"), 4));
  EXPECT_FALSE(needs_groups(*find_algorithm(Collective::AllReduce, "ring"), 4));
  Algorithm partial = *find_algorithm(Collective::AllReduce, "ring");
  partial.allows = [](Rank n) { return n == 6; };
  EXPECT_FALSE(needs_groups(partial, 4)) << "groups would not help";
}

TEST(Catalogue, HasAnAlgorithmForEveryCollectiveButPointToPoint) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    EXPECT_EQ(algorithms_of(collective).empty(), collective == Collective::SendRecv) << name_of(collective);
  }
}

TEST(Catalogue, NamesEachAlgorithmOfACollectiveOnce) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto all = algorithms_of(static_cast<Collective>(c));
    for (size_t i = 1; i < all.size(); ++i) EXPECT_STRNE(all[i - 1]->name, all[i]->name);
  }
}

}  // namespace
}  // namespace tutti::plan
