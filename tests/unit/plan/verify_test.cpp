#include "plan/verify.hpp"

#include <gtest/gtest.h>

#include "plan/builder.hpp"
#include "support/plans.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using test::written;

// ---- wrong plans, one for each kind of verdict ---------------------------------------------------------------------

/// Expects a rejection whose reason holds all of `words`.
void expect_rejected(std::span<const RankPlan> plans, std::initializer_list<const char*> words,
                     const VerifyOptions& options = {}) {
  const Verdict verdict = verify(plans, options);
  ASSERT_FALSE(verdict);
  for (const char* word : words) EXPECT_NE(verdict.reason.find(word), std::string::npos) << verdict.reason;
}

/// Two ranks send each other their inputs and fold: a correct all-reduce.
void exchange(Rank me, PlanBuilder& plan) {
  auto lane = plan.lane();
  lane.send(plan.input().all(), 1 - me);
  lane.complete(plan.output().all(), {plan.input().all(), lane.from(1 - me)});
}

TEST(Verify, AcceptsARightPlan) {
  const Verdict verdict = verify(written(Collective::AllReduce, 2, exchange));
  EXPECT_TRUE(verdict) << verdict.reason;
}

TEST(Verify, RejectsAMessageThatNoRankReceives) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    exchange(me, plan);
    if (me == 0) plan.lane().send(plan.input().all(), 1);
    if (me == 1) plan.lane();
  });
  expect_rejected(plans, {"rank 0, lane 1, step 0 (send input to rank 1)", "nobody receives"});
}

TEST(Verify, RejectsAWaitForAMessageThatIsNeverSent) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    if (me == 0) lane.send(plan.input().all(), 1);
    lane.complete(plan.output().all(), {plan.input().all(), lane.from(1 - me)});
  });
  expect_rejected(plans, {"rank 0, lane 0, step 1", "never sent", "rank 1 sends only 0"});
}

TEST(Verify, RejectsAMessageOfAnotherChunk) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(plan.partition(4)), out = plan.output(1);
    auto lane = plan.lane();
    lane.send(in[1], 1 - me);
    lane.complete(out[2], {in[2], lane.from(1 - me)});
  });
  expect_rejected(plans, {"rank 0, lane 0, step 1 (complete output chunk 2 of 4)", "operand 1 is the message of rank 1",
                          "1/4 to 1/2", "where 1/2 to 3/4 of the window is wanted"});
}

TEST(Verify, RejectsEqualWidthsAtUnequalPositionsBecauseTheyRoundDifferently) {
  const auto plans = written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    const View in = plan.input(plan.partition(2)), out = plan.output(1);
    auto lane = plan.lane();
    lane.copy(out[0], in[1]);
    lane.copy(out[1], in[0]);
  });
  expect_rejected(plans, {"rank 0, lane 0, step 0 (copy to output chunk 0 of 2)", "its source"});
}

TEST(Verify, RejectsAMissingContribution) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    lane.send(plan.input().all(), 1 - me);
    lane.recv(plan.output().all(), 1 - me);
  });
  expect_rejected(plans, {"rank 0: output", "lacks the contribution of rank 0"});
}

TEST(Verify, RejectsAContributionAddedTwice) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input();
    auto lane = plan.lane();
    lane.send(in.all(), 1 - me);
    lane.complete(plan.output().all(), {in.all(), lane.from(1 - me), in.all()});
  });
  expect_rejected(plans, {"lane 0, step 1", "claims to complete the fold", "contribution 2 times"});
}

TEST(Verify, RejectsAnOutputThatIsNeverWritten) {
  const auto plans = written(Collective::Broadcast, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    if (me == 0) lane.send(plan.input().all(), 1);
    if (me == 1) lane.recv(plan.output().all(), 0);
  });
  expect_rejected(plans, {"rank 0: output, the whole window, is never written"});
}

TEST(Verify, RejectsTheWrongBlock) {
  const auto plans = written(Collective::AllToAll, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(), out = plan.output();
    auto lane = plan.lane();
    lane.copy(out.block(me), in.block(me));
    lane.send(in.block(me), 1 - me);
    lane.recv(out.block(1 - me), 1 - me);
  });
  expect_rejected(plans, {"rank 0: output block 1", "holds block 1 of rank 1's input where block 0 of rank 1's"});
}

TEST(Verify, RejectsAFoldThatNoStepCompletes) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    lane.send(plan.input().all(), 1 - me);
    lane.reduce(plan.output().all(), {plan.input().all(), lane.from(1 - me)});
  });
  expect_rejected(plans, {"rank 0: output", "no step claims to complete it"});
}

TEST(Verify, RejectsAFoldCompletedTwice) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View out = plan.output();
    auto lane = plan.lane();
    lane.send(plan.input().all(), 1 - me);
    lane.complete(out.all(), {plan.input().all(), lane.from(1 - me)});
    lane.complete(out.all(), {out.all()});
  });
  expect_rejected(plans, {"lane 0, step 2", "completes what was completed before"});
}

TEST(Verify, RejectsAReadOfScratchThatWasNeverWritten) {
  const auto plans = written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    plan.lane().copy(plan.output().all(), plan.scratch(1).all());
  });
  expect_rejected(plans, {"rank 0, lane 0, step 0", "reads scratch, the whole window before anything was written"});
}

TEST(Verify, RejectsAnInputOverwrittenTooEarlyInPlace) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(), out = plan.output(), other = plan.scratch(1);
    auto lane = plan.lane();
    lane.send(in.all(), 1 - me);
    lane.recv(out.all(), 1 - me);  // in place, this was the input
    lane.copy(other.all(), out.all());
    lane.complete(out.all(), {in.all(), other.all()});
  });
  expect_rejected(plans, {"lane 0, step 3", "(in place)", "contribution 2 times"});
}

TEST(Verify, RejectsACopyThatReadsWhatItWritesElsewhere) {
  const auto plans = written(Collective::AllGather, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(), out = plan.output();
    auto lane = plan.lane();
    lane.send(in.all(), 1 - me);
    lane.copy(out.block(1 - me), in.all());
    lane.recv(out.block(me), 1 - me);
    lane.copy(Pieces(out.block(0)) + out.block(1), Pieces(out.block(1)) + out.block(0));
  });
  expect_rejected(plans, {"lane 0, step 3", "which it also writes at another position of the same step"});
}

TEST(Verify, DescribesADeadlockAsACycle) {
  const auto plans = written(Collective::AllGather, 3, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(), out = plan.output();
    auto lane = plan.lane();
    lane.copy(out.block(me), in.all());
    lane.recv(out.block((me + 2) % 3), (me + 2) % 3);
    lane.send(in.all(), (me + 1) % 3);
  });
  expect_rejected(plans, {"deadlock:", "rank 0, lane 0, step 1", "waits for a message of rank 2",
                          "rank 1, lane 0, step 1", "rank 2, lane 0, step 1"});
}

TEST(Verify, FindsTheDeadlockOfATooSmallLink) {
  const auto plans = written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(plan.partition(3)), out = plan.output(1);
    auto lane = plan.lane();
    for (Rank c = 0; c < 3; ++c) lane.send(in[c], 1 - me);
    for (Rank c = 0; c < 3; ++c) lane.complete(out[c], {in[c], lane.from(1 - me)});
  });
  EXPECT_TRUE(verify(plans, {.capacity = 3}));
  expect_rejected(plans, {"deadlock:", "waits until rank 1 has taken one of 2 messages"}, {.capacity = 2});
}

TEST(Verify, FindsLanesThatWaitForEachOther) {
  auto plans = written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    const View in = plan.input(plan.partition(2)), out = plan.output(1);
    auto one = plan.lane(), two = plan.lane();
    one.copy(out[0], in[0]);
    two.copy(out[1], in[1]);
  });
  plans[0].steps[0].after = 1;
  plans[0].steps[1].after = 0;
  expect_rejected(plans, {"deadlock:", "waits for lane 1", "waits for lane 0"});
}

// ---- races and lends -----------------------------------------------------------------------------------------------

TEST(Verify, RejectsARaceBetweenTwoLanes) {
  const auto plans = written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    const View middle = plan.scratch(1);
    auto one = plan.lane(), two = plan.lane();
    one.copy(middle.all(), plan.input().all());
    two.copy(plan.output().all(), middle.all());
  });
  expect_rejected(plans, {"rank 0: lane 0, step 0", "lane 1, step 0", "in no fixed order"});
}

TEST(Verify, AcceptsLanesThatAreOrderedByAfter) {
  const auto plans = written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    const View middle = plan.scratch(1);
    auto one = plan.lane(), two = plan.lane();
    two.after(one.copy(middle.all(), plan.input().all())).copy(plan.output().all(), middle.all());
  });
  const Verdict verdict = verify(plans);
  EXPECT_TRUE(verdict) << verdict.reason;
}

/// Rank 0 broadcasts from its scratch, window after window, with the given Lend.
std::vector<RankPlan> broadcast_from_scratch(bool lends, bool answers) {
  return written(Collective::Broadcast, 2, [=](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    if (me == 1) {
      lane.recv(plan.output().all(), 0);
      if (answers) lane.send(plan.output().all(), 0);
      return;
    }
    const View staged = plan.scratch(2);
    lane.copy(plan.output().all(), plan.input().all());
    lane.copy(staged.block(0), plan.input().all());
    if (lends) lane.lend(staged.block(0), 1);
    if (!lends) lane.send(staged.block(0), 1);
    if (answers) lane.recv(staged.block(1), 1);
  });
}

TEST(Verify, FindsALendBrokenByALaterRound) {
  EXPECT_TRUE(verify(broadcast_from_scratch(false, false)));
  EXPECT_TRUE(verify(broadcast_from_scratch(true, true)));
  expect_rejected(broadcast_from_scratch(true, false),
                  {"rank 0, lane 0, step 2 (send scratch block 0 to rank 1): lent", "overwritten by lane 0, step 1",
                   "2 rounds later", "rank 1, lane 0, step 0"});
}

TEST(Verify, FindsALendThatIsTrueOnlyOutOfPlace) {
  const auto plans = [](Lend claim) {
    return written(Collective::AllReduce, 2, [=](Rank me, PlanBuilder& plan) {
      auto lane = plan.lane();
      lane.lend(plan.input().all(), 1 - me, claim);
      lane.complete(plan.output().all(), {plan.input().all(), lane.from(1 - me)});
    });
  };
  const Verdict verdict = verify(plans(Lend::OutOfPlace));
  EXPECT_TRUE(verdict) << verdict.reason;
  expect_rejected(plans(Lend::Always), {"(in place)", "lent", "overwritten by lane 0, step 1"});
}

TEST(Verify, CountsTheLendsThatAPlanDoesNotClaim) {
  const Counted counted = count(written(Collective::AllReduce, 2, exchange));
  EXPECT_EQ(counted.lends, 0u);
  ASSERT_EQ(counted.lends_missed.size(), 2u);
  EXPECT_EQ(counted.lends_missed[1].rank, 1);
  EXPECT_EQ(counted.lends_missed[1].step, 0u);
  EXPECT_EQ(counted.lends_missed[1].provable, Lend::OutOfPlace);
}

TEST(Verify, CountsWhatGoesOverEachLink) {
  const Counted counted = count(written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View in = plan.input(plan.partition(3)), out = plan.output(1);
    auto lane = plan.lane();
    for (Rank c = 0; c < 3; ++c) lane.send(in[c], 1 - me);
    for (Rank c = 0; c < 3; ++c) lane.complete(out[c], {in[c], lane.from(1 - me)});
  }));
  ASSERT_EQ(counted.links.size(), 2u);
  EXPECT_EQ(counted.links[1].from, 1);
  EXPECT_EQ(counted.links[1].to, 0);
  EXPECT_EQ(counted.links[1].messages, 3u);
  EXPECT_EQ(counted.links[1].sent, Ratio(1));
  EXPECT_EQ(counted.cost.message, Ratio(1, 3));
}

TEST(Verify, RejectsABarrierThatLetsARankLeaveEarly) {
  const auto plans = written(Collective::Barrier, 3, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    lane.send(Pieces(), (me + 1) % 3);
    lane.recv(Pieces(), (me + 2) % 3);
  });
  expect_rejected(plans, {"rank 0 may leave the barrier before rank 1 has entered it"});
}

// ---- fold trees ----------------------------------------------------------------------------------------------------

/// One rank folds the inputs of all ranks, in a given order.
template <class Fold>
std::vector<RankPlan> reduced(Rank n, const Fold& fold) {
  return written(Collective::Reduce, n, [&](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    if (me > 0) {
      lane.send(plan.input().all(), 0);
      return;
    }
    std::vector<Source> all{plan.input().all()};
    for (Rank r = 1; r < n; ++r) all.push_back(lane.from(r));
    fold(plan, lane, all);
  });
}

std::vector<RankPlan> reduced_at_once(Rank n, FoldShape shape) {
  return reduced(n, [=](PlanBuilder& plan, LaneBuilder& lane, const std::vector<Source>& all) {
    lane.complete(plan.output().all(), all, shape);
  });
}

/// The same operands in the same order, two at a time.
std::vector<RankPlan> reduced_by_twos(Rank n) {
  return reduced(n, [=](PlanBuilder& plan, LaneBuilder& lane, const std::vector<Source>& all) {
    const Piece sum = plan.output().all();
    for (Rank r = 1; r + 1 < n; ++r) lane.reduce(sum, {r == 1 ? all[0] : Source(sum), all[static_cast<size_t>(r)]});
    lane.complete(sum, {sum, all.back()});
  });
}

TEST(Bits, AreTheSameForTheSameTree) {
  EXPECT_TRUE(same_bits(reduced_at_once(5, FoldShape::Left), reduced_at_once(5, FoldShape::Left)));
  EXPECT_FALSE(same_bits(reduced_at_once(5, FoldShape::Left), reduced_at_once(5, FoldShape::Tree)));
}

TEST(Bits, DependOnWhereStepsAreCutUnlessEveryNodeRounds) {
  EXPECT_FALSE(same_bits(reduced_at_once(5, FoldShape::Left), reduced_by_twos(5)));
  EXPECT_TRUE(same_bits(reduced_at_once(5, FoldShape::Left), reduced_by_twos(5), true));
}

TEST(Bits, AreCanonicalForTheTreeOverAllRanks) {
  for (const Rank n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16}) {
    EXPECT_TRUE(is_canonical(reduced_at_once(n, FoldShape::Tree))) << n;
    EXPECT_EQ(is_canonical(reduced_at_once(n, FoldShape::Left)), n <= 3) << n;
  }
}

TEST(Bits, MustBeCanonicalIfRequired) {
  EXPECT_TRUE(verify(reduced_at_once(5, FoldShape::Tree), {.check_reproducible = true}));
  expect_rejected(reduced_at_once(5, FoldShape::Left), {"canonical"}, {.check_reproducible = true});
}

}  // namespace
}  // namespace tutti::plan
