#include "plan/verify/alike.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/plans.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using test::written;

bool alike(std::span<const RankPlan> plans) { return verifier::all_ranks_are_alike(verifier::Model(plans)); }

TEST(Alike, AreTheRanksOfARing) {
  for (const Rank n : {1, 2, 3, 8, 13}) {
    EXPECT_TRUE(alike(Candidate{Collective::AllReduce, "ring"}.plans(n))) << n;
    EXPECT_TRUE(alike(Candidate{Collective::AllGather, "four_rings"}.plans(n))) << n;
    EXPECT_TRUE(alike(Candidate{Collective::AllToAll, "pairwise"}.plans(n))) << n;
  }
}

TEST(Alike, AreNotRootAndLeavesNorExchangingNeighbours) {
  EXPECT_FALSE(alike(Candidate{Collective::AllReduce, "binomial"}.plans(4)));
  for (const Rank n : {4, 6, 8}) EXPECT_FALSE(alike(Candidate{Collective::AllReduce, "recursive_doubling"}.plans(n)));
}

/// Rank 1 differs from rank 0 in one way, and only rank 1 has a race: the two must not be considered alike.
void expect_seen_on_rank_1(Collective collective, const std::function<void(Rank, PlanBuilder&)>& write) {
  const auto plans = written(collective, 2, write);
  EXPECT_FALSE(alike(plans));
  const Verdict verdict = verify(plans);
  EXPECT_FALSE(verdict);
  EXPECT_NE(verdict.reason.find("rank 1"), std::string::npos) << verdict.reason;
}

void exchange(Rank me, PlanBuilder& plan, LaneBuilder lane, Lend lend) {
  lane.lend(plan.input().all(), 1 - me, lend);
  lane.complete(plan.output().all(), {plan.input().all(), LaneBuilder::from(1 - me)});
}

TEST(Alike, AreNotIfTwoLocationsOfOneRankAreTheSameOnAnother) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    const View aside = plan.scratch(2);
    auto one = plan.lane(), two = plan.lane();
    exchange(me, plan, one, Lend::Never);
    one.copy(aside.block(0), plan.input().all());
    two.copy(aside.block(1 - me), plan.input().all());
  });
}

TEST(Alike, AreNotIfALocationOfRank0IsTwoOnAnother) {
  EXPECT_FALSE(alike(written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View aside = plan.scratch(2);
    auto lane = plan.lane();
    exchange(me, plan, lane, Lend::Never);
    lane.copy(aside.block(0), plan.input().all());
    lane.copy(aside.block(me), plan.input().all());
  })));
}

TEST(Alike, AreNotIfOneUsesScratchForAnothersOutput) {
  EXPECT_FALSE(alike(written(Collective::AllToAll, 2, [](Rank me, PlanBuilder& plan) {
    const Piece out = plan.output().block(1 - me), aside = plan.scratch(1).all();
    auto lane = plan.lane();
    lane.copy(plan.output().block(me), plan.input().block(me));
    lane.send(plan.input().block(1 - me), 1 - me);
    lane.recv(me == 0 ? out : aside, 1 - me);
    lane.copy(me == 0 ? aside : out, me == 0 ? out : aside);
  })));
}

TEST(Alike, AreNotIfOneWaitsForItsOtherLaneAndAnotherDoesNot) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    const View aside = plan.scratch(1);
    auto one = plan.lane(), two = plan.lane();
    exchange(me, plan, one, Lend::Never);
    const StepRef written_once = one.copy(aside.all(), plan.input().all());
    if (me == 0) two.after(written_once);
    two.copy(aside.all(), plan.input().all());
  });
}

TEST(Alike, AreNotIfLanesShareTheirStepsDifferently) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    const View aside = plan.scratch(2);
    auto one = plan.lane(), two = plan.lane();
    exchange(me, plan, one, Lend::Never);
    one.copy(aside.block(0), plan.input().all());
    (me == 0 ? one : two).copy(aside.block(0), plan.input().all());
    two.copy(aside.block(1), plan.input().all());
  });
}

TEST(Alike, AreNotIfOneWritesMoreAtATime) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    const uint32_t halves = plan.partition(2);
    const View in = plan.input(halves), aside = plan.scratch(1, halves);
    auto one = plan.lane(), two = plan.lane();
    exchange(me, plan, one, Lend::Never);
    one.copy(aside.chunks(0, 0, 1 + me), in.chunks(0, 0, 1 + me));
    two.copy(aside[1], in[1]);
  });
}

TEST(Alike, AreNotIfOneCopiesToItselfPieceByPieceAndAnotherWrites) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    const uint32_t halves = plan.partition(2), quarters = plan.partition(4);
    const View aside = plan.scratch(2);
    const Piece first_half{Buffer::Scratch, 0, halves, 0, 1}, second_half{Buffer::Scratch, 0, quarters, 2, 4};
    auto one = plan.lane(), two = plan.lane();
    exchange(me, plan, one, Lend::Never);
    const StepRef written_once = one.copy(aside.block(0), plan.input().all());
    one.copy(aside.block(0), me == 0 ? aside.block(0) : Pieces(first_half) + second_half);
    two.after(written_once).copy(aside.block(1), aside.block(0));
  });
}

TEST(Alike, AreNotIfOneSendsFirstAndAnotherReceivesFirst) {
  EXPECT_FALSE(alike(written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    const auto send = [&](const Piece& piece) { lane.send(piece, 1 - me); };
    const auto recv = [&](const Piece& piece) { lane.recv(piece, 1 - me); };
    const Piece out = plan.output().all(), aside = plan.scratch(1).all();
    lane.copy(out, plan.input().all());
    me == 0 ? send(out) : recv(out);
    me == 0 ? recv(aside) : send(aside);
  })));
}

TEST(Alike, AreNotIfOneFoldsMoreOrFromOthers) {
  const auto folding = [](const auto& others_of) {
    return written(Collective::AllReduce, 3, [&](Rank me, PlanBuilder& plan) {
      auto lane = plan.lane();
      for (const Rank further : {1, 2}) lane.send(plan.input().all(), (me + further) % 3);
      std::vector<Source> sources = {plan.input().all()};
      for (const Rank peer : others_of(me)) sources.push_back(peer == me ? plan.input().all() : lane.from(peer));
      lane.complete(plan.output().all(), sources);
    });
  };
  using Ranks = std::vector<Rank>;
  EXPECT_FALSE(alike(folding([](Rank me) { return me == 1 ? Ranks{0, 2} : Ranks{(me + 1) % 3, (me + 2) % 3}; })));
  EXPECT_FALSE(alike(folding([](Rank me) { return me == 1 ? Ranks{2, 0, 1} : Ranks{(me + 1) % 3, (me + 2) % 3}; })));
}

TEST(Alike, AreNotIfOneSendsToMoreAtATime) {
  auto plans = written(Collective::AllReduce, 3, [](Rank me, PlanBuilder& plan) {
    const Rank next = (me + 1) % 3, last = (me + 2) % 3;
    const std::array<Rank, 2> both = {next, last};
    auto lane = plan.lane();
    for (const bool first : {true, false}) {
      lane.send(plan.input().all(), std::span(both).first(first == (me == 1) ? 1 : 2));
    }
    for (const Rank peer : {next, last, last}) lane.recv(plan.output().all(), peer);
  });
  EXPECT_FALSE(alike(plans));
  // Even if the table of peers continues with the matching ranks.
  plans[1].steps[0].peers = {0, 1};
  plans[1].steps[1].peers = {0, 2};
  plans[1].peers = {2, 0, 0, 2, 0, 0};  // sends, then receives
  EXPECT_FALSE(alike(plans));
}

/// Both have a copy of the input in memory that two lanes use: scratch, which orders their rounds, or output.
TEST(Alike, AreNotIfLanesOfOneShareScratch) {
  EXPECT_FALSE(alike(written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const View aside = me == 0 ? plan.scratch(1) : plan.output();
    auto one = plan.lane(), two = plan.lane();
    const StepRef copied = one.copy(aside.all(), plan.input().all());
    const StepRef sent = two.after(copied).send(aside.all(), 1 - me);
    one.after(sent).complete(plan.output().all(), {plan.input().all(), aside.all()});
    two.recv(plan.scratch(1).all(), 1 - me);
  })));
}

TEST(Alike, AreNotIfOneLendsWhatAnotherCopies) {
  expect_seen_on_rank_1(Collective::AllReduce, [](Rank me, PlanBuilder& plan) {
    exchange(me, plan, plan.lane(), me == 0 ? Lend::OutOfPlace : Lend::Always);
  });
}

TEST(Alike, AreNotIfOneReadsInPlaceWhatAnotherLaneWrites) {
  // In place, the output is block [rank] of the input: for rank 1 the block that lane 1 reads.
  expect_seen_on_rank_1(Collective::ReduceScatter, [](Rank me, PlanBuilder& plan) {
    auto one = plan.lane(), two = plan.lane();
    one.send(plan.input().block(1 - me), 1 - me);
    one.complete(plan.output().all(), {plan.input().block(me), one.from(1 - me)});
    two.copy(plan.scratch(1).all(), plan.input().block(1));
  });
}

TEST(Alike, AreNotIfOneSendsToItsNextFirstAndAnotherToItsLast) {
  const auto plans = [](bool turned) {
    return written(Collective::AllToAll, 3, [=](Rank me, PlanBuilder& plan) {
      auto lane = plan.lane();
      lane.copy(plan.output().block(me), plan.input().block(me));
      const Rank first = turned || me == 0 ? (me + 1) % 3 : (me + 2) % 3, second = 3 - me - first;
      for (const Rank peer : {first, second}) lane.send(plan.input().block(peer), peer);
      for (const Rank peer : {first, second}) lane.recv(plan.output().block(peer), peer);
    });
  };
  EXPECT_TRUE(verify(plans(true)));
  EXPECT_TRUE(verify(plans(false)));
  EXPECT_TRUE(alike(plans(true)));
  EXPECT_FALSE(alike(plans(false)));
}

}  // namespace
}  // namespace tutti::plan
