// Programs: what lowering fuses, and how it delivers.
#include "exec/compile/lower.hpp"
#include "exec/method.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/algorithm.hpp"
#include "tutti/error.hpp"

namespace tutti::exec {
namespace {

/// The number of stores to scratch in rank `me`'s program, for large staged messages.
int64_t scratch_stores(Collective collective, const char* name, Rank ranks, Rank me) {
  const plan::RankPlan plan = plan::generate(*plan::find_algorithm(collective, name), {collective, ranks}, me);
  const uint64_t count = 1 << 20;
  const Program program =
      lower(plan, {.count = count, .window = count, .element_bytes = 4}, PeerTraits(static_cast<size_t>(ranks)));
  const auto& segments = program.last.segments;
  return std::count_if(segments.begin(), segments.end(), [](const Segment& s) { return s.to.base == Base::Scratch; });
}

TEST(LowerScratch, OfARingIsNeverStored) {
  EXPECT_EQ(scratch_stores(Collective::AllReduce, "ring", 6, 2), 0);
  EXPECT_EQ(scratch_stores(Collective::ReduceScatter, "ring", 6, 2), 0);
  EXPECT_EQ(scratch_stores(Collective::Reduce, "chain", 6, 2), 0);
}

TEST(LowerScratch, OfATreeOnTheWayUpIsNeverStored) {
  EXPECT_EQ(scratch_stores(Collective::AllReduce, "binomial", 8, 4), 0);
}

TEST(LowerScratch, ThatIsReadAgainIsStored) {
  EXPECT_GT(scratch_stores(Collective::ReduceScatter, "recursive_doubling", 8, 4), 0);
}

Program all_reduce(const char* name, Rank ranks, Rank me, const PeerTraits& traits, uint32_t width = 1) {
  const plan::RankPlan plan =
      plan::generate(*plan::find_algorithm(Collective::AllReduce, name), {Collective::AllReduce, ranks}, me);
  return lower(plan,
               {.count = 100000,
                .window = 30000,
                .element_bytes = 4,
                .width = width,
                .method = traits[0].out.ll_bytes > 0 ? &methods::ll : &methods::lanes,
                .rules = {.address_from = 8192}},
               traits);
}

/// Only these are asked what their links can do.
TEST(PeersOf, APlanAreThoseThatItHasLinksTo) {
  const auto plan_of = [](Rank me) {
    return plan::generate(*plan::find_algorithm(Collective::AllReduce, "ring"), {Collective::AllReduce, 8}, me);
  };
  EXPECT_EQ(peers_of(plan_of(3), {}), (std::vector<Rank>{2, 4}));
  EXPECT_EQ(peers_of(plan_of(3), {.root = 6}), (std::vector<Rank>{0, 2})) << "the plan's rank 0 is rank 6";
  const plan::RankOrder order({7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_EQ(peers_of(plan_of(3), {.order = order}), (std::vector<Rank>{4, 6})) << "the plan's rank 3 is rank 5";
}

TEST(PeersOf, APlanAreAllThatItsProgramHasLinksTo) {
  for (const Collective collective : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
    for (const plan::Algorithm* algorithm : plan::algorithms_of(collective)) {
      if (!algorithm->allows(plan::Shape{collective, 8})) continue;
      for (Rank me = 0; me < 8; ++me) {
        const auto plan = plan::generate(*algorithm, {collective, 8}, me);
        const Program made = lower(plan, {.count = 100, .window = 100, .element_bytes = 4, .root = 5}, PeerTraits(8));
        std::set<Rank> linked;
        for (const LinkId& link : made.out_links) linked.insert(link.peer);
        for (const LinkId& link : made.in_links) linked.insert(link.peer);
        EXPECT_EQ(peers_of(plan, {.root = 5}), std::vector<Rank>(linked.begin(), linked.end())) << algorithm->name;
      }
    }
  }
}

TEST(Lower, NumbersTheLinksOfARing) {
  const Program program = all_reduce("ring", 8, 3, PeerTraits(8));
  EXPECT_EQ(program.out_links.size(), 1u);
  EXPECT_EQ(program.out_links[0].peer, 4);
  EXPECT_EQ(program.in_links[0].peer, 2);
}

TEST(Lower, DecidesForEachReader) {  // of a message to two ranks, one reads it in place, the other gets a copy
  const Program program = all_reduce("two_shot", 3, 0, {{}, {.out = {.address = true}, .in = {}}, {}});
  int mixed = 0;
  for (const Instruction& op : program.full.ops) {
    if (op.outs.end - op.outs.begin < 2) continue;
    ++mixed;
    EXPECT_EQ(op.slot, Slot::Stage);
    EXPECT_FALSE(op.publishes_first) << "the copy does not exist before the instruction runs";
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const Out& out = program.full.outs[i];
      const bool in_place = program.out_links[out.link].peer == 1;
      EXPECT_EQ(out.delivery, in_place ? Delivery::Address : Delivery::Staged);
    }
  }
  EXPECT_GT(mixed, 0);
  EXPECT_TRUE(program.has_zero_copy);
}

Program gather(uint64_t window, const Method& method, const link::Access& access) {
  const Collective collective = Collective::AllGather;
  const plan::RankPlan plan = plan::generate(*plan::find_algorithm(collective, "one_shot"), {collective, 2}, 0);
  return lower(plan, {.count = 1000, .window = window, .element_bytes = 4, .method = &method},
               PeerTraits(2, {.out = access, .in = access}));
}

TEST(Lower, SendsBeforeItCopiesWhereReadersWouldWait) {
  const Program program = gather(1000, methods::lanes, {});
  ASSERT_EQ(program.last.ops.size(), 3U);
  const Instruction& sent = program.last.ops[0];
  EXPECT_EQ(sent.slot, Slot::Stage);
  EXPECT_EQ(program.last.segments[sent.segments.begin].to.base, Base::None);
  EXPECT_EQ(program.last.ops[1].outs.begin, program.last.ops[1].outs.end);
}

TEST(Lower, ReadsOnceWhatItSendsAndCopiesWhereNobodyWaits) {
  const Program rounds = gather(300, methods::lanes, {}),
                on_gpus = gather(1000, methods::slots, {.push_bytes = 1 << 20});
  for (const WindowProgram* window : {&rounds.full, &rounds.last, &on_gpus.last}) {
    ASSERT_EQ(window->ops.size(), 2U);
    const Instruction& both = window->ops[0];
    EXPECT_EQ(both.outs.end - both.outs.begin, 1U);
    EXPECT_EQ(window->segments[both.segments.begin].to.base, Base::Output);
    EXPECT_EQ(window->sources[window->segments[both.segments.begin].sources].base, Base::Input);
  }
  EXPECT_EQ(gather(4, methods::lanes, {}).last.ops.size(), 2U) << "inline: 16 bytes";
}

/// The sending waits for another lane; or scratch holds the copy, and is used again in a later round.
TEST(Lower, DoesNotFuseACopyToWhatWaitsOrToScratch) {
  const auto ops = [](bool waits, bool scratch) {
    plan::PlanBuilder builder({Collective::AllGather, 2}, 0);
    const plan::View to = scratch ? builder.scratch(1) : builder.output();
    auto other = builder.lane(), lane = builder.lane();
    const plan::StepRef arrived = other.recv(builder.output().block(1), 1);
    if (waits) lane.after(arrived);
    lane.lend(builder.input().all(), 1);
    lane.copy(scratch ? to.all() : to.block(0), builder.input().all());
    return lower(builder.finish(), {.count = 1000, .window = 300, .element_bytes = 4, .method = &methods::lanes},
                 PeerTraits(2))
        .last.ops.size();
  };
  EXPECT_EQ(ops(false, false), 2U) << "one in each lane";
  EXPECT_EQ(ops(true, false), 3U);
  EXPECT_EQ(ops(false, true), 3U);
}

/// Where the copy lies is written again, so that a message to be read there may not be fused to it.
TEST(Lower, DoesNotFuseACopyThatDoesNotStay) {
  plan::PlanBuilder builder({Collective::AllReduce, 2}, 0);
  auto lane = builder.lane();
  lane.lend(builder.input().all(), 1);
  lane.copy(builder.output().all(), builder.input().all());
  lane.complete(builder.output().all(), {builder.output().all(), plan::LaneBuilder::from(1)});
  const plan::RankPlan plan = builder.finish();
  const Program program =
      lower(plan, {.count = 1000, .window = 300, .element_bytes = 4, .method = &methods::lanes}, PeerTraits(2));
  EXPECT_EQ(program.last.ops.size(), 3U);
}

PeerTraits lines_up_to(uint64_t bytes, Rank ranks) {
  const link::Access access{.push_bytes = 1 << 20, .ll_bytes = bytes};
  return PeerTraits(static_cast<size_t>(ranks), {.out = access, .in = access});
}

TEST(Lower, SendsShortMessagesInLinesOnLinksOfTheirOwn) {
  // Windows of 30,000 elements, and one of 10,000: 40,000 bytes.
  const Program program = all_reduce("one_shot", 3, 0, lines_up_to(40000, 3));
  EXPECT_EQ(program.out_links.size(), 4u);
  for (const WindowProgram* window : {&program.full, &program.last}) {
    const bool is_short = window == &program.last;
    const auto in_lines = [](const LinkId& link) { return link.link_lane == link::kLlLanes; };
    for (const Out& out : window->outs) {
      EXPECT_EQ(out.delivery, is_short ? Delivery::Ll : Delivery::Pushed);
      EXPECT_EQ(in_lines(program.out_links[out.link]), is_short);
    }
    for (const uint32_t in : window->arrivals) EXPECT_EQ(in_lines(program.in_links[in]), is_short);
    for (const Instruction& op : window->ops) {
      const bool sends = op.outs.begin != op.outs.end;
      EXPECT_EQ(op.only_sends, sends) << "from where the input lies";
      EXPECT_EQ(op.lines, is_short && !sends);
      EXPECT_EQ(op.slot, Slot::None);
    }
  }
}

TEST(Lower, StoresNoFoldDirectlyThatItSendsInLines) {
  const Collective collective = Collective::AllReduce;
  const plan::RankPlan plan =
      plan::generate(*plan::find_algorithm(collective, "recursive_doubling"), {collective, 4}, 0);
  const Program program =
      lower(plan, {.count = 1000, .window = 1000, .element_bytes = 4, .rules = {.direct_store_from = 1}},
            lines_up_to(4000, 4));
  for (const Instruction& op : program.last.ops) EXPECT_EQ(op.remote, 0);
}

TEST(Lower, SendsNothingInLinesWhereItIsWideOrAsksForNone) {
  const Program wide = all_reduce("one_shot", 3, 0, lines_up_to(1 << 20, 3), 2);
  EXPECT_EQ(wide.width, 2u);
  for (const Out& out : wide.last.outs) EXPECT_EQ(out.delivery, Delivery::Pushed);
  const Program never = all_reduce("one_shot", 3, 0, lines_up_to(0, 3));
  for (const Out& out : never.last.outs) EXPECT_EQ(out.delivery, Delivery::Pushed);
}

TEST(Lower, PushesStraightToOneReaderAndCopiesForSeveral) {
  const Program program = all_reduce("two_shot", 3, 0, PeerTraits(3, {.out = {.push_bytes = 1 << 20}, .in = {}}));
  int straight = 0, copied = 0;
  for (const Instruction& op : program.full.ops) {
    const uint32_t readers = op.outs.end - op.outs.begin;
    if (readers == 0) continue;
    EXPECT_EQ(op.push_copies, readers > 1);
    EXPECT_EQ(op.slot == Slot::Push, readers == 1);
    const bool in_memory = op.message.base != Base::None;
    if (readers > 1) {
      EXPECT_EQ(op.slot, in_memory ? Slot::None : Slot::Stage) << "copies come from local memory";
    }
    (readers > 1 ? copied : straight) += 1;
  }
  EXPECT_GT(straight, 0);
  EXPECT_GT(copied, 0);
}

TEST(Lower, RefusesAMessageThatIsTooLongToPush) {
  EXPECT_THROW(all_reduce("ring", 3, 0, PeerTraits(3, {.out = {.push_bytes = 1024}, .in = {}})), Error);
}

TEST(Lower, IsNoWiderThanItHasRounds) {
  const PeerTraits traits(2);
  EXPECT_EQ(all_reduce("ring", 2, 0, traits, 3).width, 3u);
  EXPECT_EQ(all_reduce("ring", 2, 0, traits, 64).width, 4u);
}

}  // namespace
}  // namespace tutti::exec
