// Direct stores give the right sums, in any order of the ranks' turns and with any plan.
#include "exec/compile/direct_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/algorithm.hpp"
#include "plan/builder.hpp"
#include "plan/verify.hpp"
#include "support/exec_ranks.hpp"

namespace tutti::exec {
namespace {

using plan::PlanBuilder;
using plan::RankPlan;
using plan::View;

ExecRanks::Plans plans_of(const plan::Algorithm& algorithm, Rank ranks) {
  return [&algorithm, ranks](Rank me) { return plan::generate(algorithm, {algorithm.collective, ranks}, me); };
}
const plan::Algorithm& two_shot() { return *plan::find_algorithm(Collective::AllReduce, "two_shot"); }

/// Hand-made plans must pass the verifier.
ExecRanks::Plans proven(Rank ranks, const std::function<RankPlan(Rank)>& plan_of) {
  std::vector<RankPlan> plans;
  for (Rank r = 0; r < ranks; ++r) plans.push_back(plan_of(r));
  const auto verdict = plan::verify(plans);
  EXPECT_TRUE(verdict.ok) << verdict.reason;
  return plan_of;
}

void expect_sums(const ExecRanks::Plans& plans, const ExecRanks::Conditions& setting, uint64_t seeds,
                 int64_t claimed = -1) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << setting.ranks << " ranks, seed " << seed
                                    << (setting.in_place ? ", in place" : "")
                                    << (setting.cooperates ? ", cooperating" : ""));
    ExecRanks ranks(plans, setting);
    ASSERT_NO_FATAL_FAILURE(ranks.run(seed));
    ASSERT_NO_FATAL_FAILURE(ranks.expect_sums());
    ASSERT_TRUE(claimed < 0 || claimed == ranks.claimed()) << ranks.claimed();
  }
}

TEST(DirectStore, GivesTheSumInAnyOrderOfTurns) {
  for (const Rank ranks : {2, 3, 5, 12}) {  // with twelve, a fold has more readers than kMaxDirectStores
    for (const bool in_place : {false, true}) {
      const int64_t stored = ranks * std::min<int64_t>(ranks - 1, kMaxDirectStores);
      ASSERT_NO_FATAL_FAILURE(
          expect_sums(plans_of(two_shot(), ranks), {.ranks = ranks, .in_place = in_place}, 50, stored));
    }
  }
}

TEST(DirectStore, GivesTheSumByEveryAlgorithm) {
  for (const plan::Algorithm* algorithm : plan::algorithms_of(Collective::AllReduce)) {
    for (const Rank ranks : {2, 3, 4, 5, 8}) {
      if (!algorithm->allows(plan::Shape{Collective::AllReduce, ranks})) continue;
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(algorithm->name);
        ASSERT_NO_FATAL_FAILURE(
            expect_sums(plans_of(*algorithm, ranks), {.ranks = ranks, .in_place = in_place, .cooperates = true}, 10));
      }
    }
  }
}

TEST(DirectStore, GoesTileByTileForSeveralReaders) {
  const ExecRanks::Conditions setting{.ranks = 3, .count = 400000, .window = 400000};  // chunks of half a MiB
  expect_sums(plans_of(two_shot(), 3), setting, 2, 6);
}

TEST(DirectStore, WaitsForAllMessagesOfTheDestination) {
  // Rank 1 sends its input to rank 0 twice; rank 0 forwards the second one to rank 2, which sums for itself. In place,
  // the sum must not be stored over that input before rank 0 has received it again, nor may rank 0 copy it there.
  const auto plan_of = [](Rank me) {
    PlanBuilder plan({Collective::AllReduce, 3}, me);
    const View in = plan.input(), out = plan.output(), passed = plan.scratch(1);
    auto lane = plan.lane();
    if (me == 0) {
      lane.lend(in.all(), 2, plan::Lend::OutOfPlace);
      lane.complete(out.all(), {in.all(), lane.from(1), lane.from(2)}, FoldShape::Left);
      lane.lend(out.all(), 1);
      lane.recv(passed.block(0), 1);
      lane.send(passed.block(0), 2);
    } else if (me == 1) {
      lane.lend(in.all(), 0);
      lane.send(in.all(), 0);
      lane.recv(out.all(), 0);
    } else {
      lane.lend(in.all(), 0, plan::Lend::OutOfPlace);
      lane.recv(passed.block(0), 0);
      lane.complete(out.all(), {passed.block(0), lane.from(0), in.all()}, FoldShape::Left);
    }
    return plan.finish();
  };
  for (const bool cooperates : {false, true}) {
    expect_sums(proven(3, plan_of), {.ranks = 3, .in_place = true, .cooperates = cooperates}, 100);
  }
}

TEST(DirectStore, IncludesFoldsOfLocalPieces) {
  const auto plan_of = [](Rank me) {
    constexpr Rank kRanks = 3;
    PlanBuilder plan({Collective::AllReduce, kRanks}, me);
    const uint32_t chunks = plan.partition(kRanks);
    const View in = plan.input(chunks), out = plan.output(chunks), had = plan.scratch(kRanks, chunks);
    auto lane = plan.lane();
    std::vector<Rank> others;
    std::vector<plan::Source> all;
    for (Rank r = 0; r < kRanks; ++r) {
      if (r != me) others.push_back(r);
      all.push_back(r == me ? plan::Source(in[me]) : plan::Source(had.chunks(r, me, me + 1)));
    }
    for (const Rank r : others) lane.lend(in[r], r);
    for (const Rank r : others) lane.recv(had.chunks(r, me, me + 1), r);
    lane.complete(out[me], all, FoldShape::Left);
    lane.lend(out[me], others);
    for (const Rank r : others) lane.recv(out[r], r);
    return plan.finish();
  };
  expect_sums(proven(3, plan_of), {.ranks = 3}, 20, 6);
}

TEST(DirectStore, IsRefusedByAReaderThatCloses) {
  ExecRanks ranks(plans_of(two_shot(), 2), {});
  for (const size_t rank : {size_t{0}, size_t{1}}) {  // both offer a destination and send their input
    RankState& state = ranks.state(rank);
    ASSERT_EQ(HostInterpreter::try_step({}, state, state.lanes[0]), Outcome::Progress);
  }
  close_offers(ranks.links(0).ins());
  EXPECT_TRUE(std::all_of(ranks.links(0).ins().begin(), ranks.links(0).ins().end(), exec::writer_done));
  RankState& other = ranks.state(1);
  ASSERT_EQ(HostInterpreter::try_step({}, other, other.lanes[0]), Outcome::Progress);  // it folds
  const auto untouched = [&](size_t rank) {
    const auto& result = ranks.result(rank);
    return std::count(result.begin(), result.end(), ExecRanks::kPoison) == static_cast<int64_t>(result.size());
  };
  EXPECT_TRUE(untouched(0));
  EXPECT_FALSE(untouched(1));
}

TEST(Revoked, IsTheFaultOfAReaderWhoseWriterHasFailed) {
  ExecRanks ranks(plans_of(two_shot(), 3), {.ranks = 3});
  for (const size_t rank : {0, 1, 2}) {  // all send their inputs, zero-copy
    RankState& state = ranks.state(rank);
    for (int peer = 0; peer < 2; ++peer) {
      ASSERT_EQ(HostInterpreter::try_step({}, state, state.lanes[0]), Outcome::Progress);
    }
  }
  release_buffers(ranks.links(1).outs(), ranks.links(1).ins(), [](Rank) { return false; });
  RankState& reader = ranks.state(0);
  ASSERT_EQ(HostInterpreter::try_step({}, reader, reader.lanes[0]), Outcome::Fault);
  EXPECT_EQ(reader.fault.kind, FaultKind::Revoked);
  EXPECT_EQ(reader.fault.peer, 1);
  const auto& result = ranks.result(0);
  EXPECT_EQ(std::count(result.begin(), result.end(), ExecRanks::kPoison), static_cast<int64_t>(result.size()));
  release_buffers(ranks.links(2).outs(), ranks.links(2).ins(),
                  [](Rank) { return false; });  // no reader has begun to read
}

TEST(DirectStore, IsUsedIfTheAlgorithmSaysSo) {
  for (const plan::Algorithm* algorithm : plan::algorithms_of(Collective::AllReduce)) {
    bool offered = false, stored = false;
    for (Rank ranks = 2; ranks < 10; ++ranks) {
      if (!algorithm->allows(plan::Shape{Collective::AllReduce, ranks})) continue;
      for (Rank me = 0; me < ranks; ++me) {
        Wires wires;
        Wired connector(wires, me);
        const Geometry geometry{
            .count = 1000, .window = 1000, .element_bytes = 4, .rules = {.address_from = 0, .direct_store_from = 1}};
        const PeerTraits traits(static_cast<size_t>(ranks), connector.traits(0));
        for (const Instruction& op : lower(plans_of(*algorithm, ranks)(me), geometry, traits).last.ops) {
          offered = offered || (op.remote & kOffersDestination) != 0;
          stored = stored || (op.remote & kStoresDirect) != 0;
        }
      }
    }
    EXPECT_EQ(algorithm->direct_stores, offered && stored) << algorithm->name;
  }
}

}  // namespace
}  // namespace tutti::exec
