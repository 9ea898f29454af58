#include "plan/scratch.hpp"

#include <gtest/gtest.h>

#include "plan/algorithm.hpp"
#include "plan/builder.hpp"
#include "plan/verify.hpp"

namespace tutti::plan {
namespace {

/// What a lane does with scratch.
enum class Use : uint8_t { Fold, Lend };

/// Rank 1 of three passes on sums in two lanes: of these chunks of eight.
RankPlan passing(std::pair<Rank, Rank> first, std::pair<Rank, Rank> second, Use use = Use::Fold, bool blocks = false) {
  PlanBuilder plan({Collective::AllReduce, 3}, 1);
  const uint32_t eighths = plan.partition(8);
  const View in = plan.input(eighths), scratch = plan.scratch(2, eighths);
  const auto pass = [&](std::pair<Rank, Rank> chunks, Rank block) {
    LaneBuilder lane = plan.lane();
    const Piece sum = scratch.chunks(block, chunks.first, chunks.second);
    lane.reduce(sum, {in.chunks(0, chunks.first, chunks.second), LaneBuilder::from(0)});
    use == Use::Lend ? lane.lend(sum, 2) : lane.send(sum, 2);
  };
  pass(first, 0);
  pass(second, blocks ? 1 : 0);
  return plan.finish();
}

TEST(Scratch, IsSharedWhereLanesUseTheSameChunk) {
  EXPECT_TRUE(shares_scratch(passing({0, 4}, {0, 4})));
  EXPECT_TRUE(shares_scratch(passing({0, 5}, {4, 8})));
  EXPECT_TRUE(shares_scratch(passing({4, 8}, {0, 5})));
  EXPECT_TRUE(shares_scratch(passing({0, 8}, {3, 4})));
  EXPECT_TRUE(shares_scratch(passing({3, 4}, {0, 8})));
}

TEST(Scratch, IsNotSharedWhereEachLaneHasItsOwn) {
  EXPECT_FALSE(shares_scratch(passing({0, 4}, {4, 8})));
  EXPECT_FALSE(shares_scratch(passing({4, 8}, {0, 4})));
  EXPECT_FALSE(shares_scratch(passing({0, 8}, {0, 8}, Use::Fold, true))) << "blocks of their own";
}

TEST(Scratch, ThatIsLentIsHeldByItsReader) { EXPECT_TRUE(shares_scratch(passing({0, 4}, {4, 8}, Use::Lend))); }

TEST(Scratch, OfAPlanWithoutItIsNotShared) {
  const Algorithm* one_shot = find_algorithm(Collective::AllReduce, "one_shot");
  ASSERT_NE(one_shot, nullptr);
  EXPECT_FALSE(shares_scratch(generate(*one_shot, {Collective::AllReduce, 4}, 0)));
}

/// A reduce whose halves come along a line of ranks in opposite directions: each rank is near the end of one and far
/// from that of the other, and the rounds of its lanes may be any number apart.
std::vector<RankPlan> along_a_line(Rank ranks) {
  std::vector<RankPlan> plans;
  for (Rank me = 0; me < ranks; ++me) {
    PlanBuilder plan({Collective::Reduce, ranks}, me);
    const uint32_t halves = plan.partition(2);
    const View in = plan.input(halves), out = plan.output(halves), sums = plan.scratch(1, halves);
    for (const Rank half : {0, 1}) {
      LaneBuilder lane = plan.lane();
      const Rank first = half == 0 ? ranks - 1 : 1, last = half == 0 ? 1 : ranks - 1, step = half == 0 ? -1 : 1;
      const Rank before = me == 0 ? last : me - step, next = me == last ? 0 : me + step;
      if (me == 0) {
        lane.complete(out[half], {in[half], LaneBuilder::from(before)});
      } else if (me == first) {
        lane.lend(in[half], next);
      } else {
        lane.reduce(sums[half], {in[half], LaneBuilder::from(before)});
        lane.send(sums[half], next);
      }
    }
    plans.push_back(plan.finish());
  }
  return plans;
}

TEST(Scratch, OfOneLaneEachIsProvenWithoutAFence) {
  const std::vector<RankPlan> plans = along_a_line(6);
  for (const RankPlan& plan : plans) EXPECT_FALSE(shares_scratch(plan));
  const Verdict verdict = verify(plans, {.capacity = 1});
  EXPECT_TRUE(verdict) << verdict.reason;
}

}  // namespace
}  // namespace tutti::plan
