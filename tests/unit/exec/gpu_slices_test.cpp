// A program cut into its lanes: each slice says of its lane what the program says.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "exec/compile/lower.hpp"
#include "exec/gpu/slices.hpp"
#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "support/plans.hpp"

namespace tutti::exec::gpu {
namespace {

/// What an instruction does, with the numbers of the program's links and stages, and no position in a table.
std::string text_of(const WindowProgram& window, const Instruction& op, const std::vector<uint32_t>& outs,
                    const std::vector<uint32_t>& ins, const std::vector<uint32_t>& stages) {
  std::string text;
  const auto add = [&](uint64_t number) { text += std::to_string(number) + ' '; };
  const auto ref = [&](const Ref& at) {
    add(static_cast<uint64_t>(at.base));
    add(at.message);
    add(at.offset);
  };
  add(op.bytes);
  add(op.after_lane);
  add(op.after_op);
  add(static_cast<uint64_t>(op.slot));
  add(static_cast<uint64_t>(op.shape));
  add(op.step);
  add(op.push_to == kNone ? kNone : op.push_to - op.outs.begin);
  if (op.stage != kNone) add(stages[op.stage]);
  ref(op.message);
  for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) add(ins[window.arrivals[i]]);
  for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
    add(outs[window.outs[i].link]);
    add(static_cast<uint64_t>(window.outs[i].delivery));
  }
  for (uint32_t i = op.segments.begin; i < op.segments.end; ++i) {
    const Segment& segment = window.segments[i];
    add(segment.bytes);
    add(segment.at);
    ref(segment.to);
    for (uint32_t k = 0; k < op.sources; ++k) ref(window.sources[segment.sources + k]);
  }
  return text;
}

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> all(count);
  for (uint32_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

void expect_same(const Program& program, const WindowProgram& window, size_t lane, const LaneSlice& slice,
                 const WindowProgram& cut) {
  const Range ops = window.lanes[lane];
  ASSERT_EQ(cut.lanes.size(), 1U);
  ASSERT_EQ(cut.lanes[0].begin, 0U);
  ASSERT_EQ(cut.lanes[0].end, ops.end - ops.begin);
  for (uint32_t i = 0; i < cut.lanes[0].end; ++i) {
    EXPECT_EQ(text_of(cut, cut.ops[i], slice.outs, slice.ins, slice.stages),
              text_of(window, window.ops[ops.begin + i], numbers(program.out_links.size()),
                      numbers(program.in_links.size()), numbers(program.stages.size())))
        << "lane " << lane << ", instruction " << i;
  }
}

void expect_slices_of(const plan::Algorithm& algorithm, Rank ranks, uint64_t window, const Method& method,
                      const link::Access& how) {
  const Geometry geometry{.count = 1000, .window = window, .element_bytes = 4, .method = &method};
  const PeerTraits traits(static_cast<size_t>(ranks), {how, how});
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Program program = lower(plan::generate(algorithm, {algorithm.collective, ranks}, rank), geometry, traits);
    const std::vector<LaneSlice> slices = slices_of(program);
    ASSERT_EQ(slices.size(), program.last.lanes.size());
    std::set<uint32_t> outs, ins;  // a link is of one lane: blocks have copies of theirs
    for (size_t lane = 0; lane < slices.size(); ++lane) {
      expect_same(program, program.last, lane, slices[lane], slices[lane].last);
      if (!program.full.lanes.empty()) expect_same(program, program.full, lane, slices[lane], slices[lane].full);
      for (const uint32_t out : slices[lane].outs) EXPECT_TRUE(outs.insert(out).second) << algorithm.name;
      for (const uint32_t in : slices[lane].ins) EXPECT_TRUE(ins.insert(in).second) << algorithm.name;
    }
  }
}

TEST(Slices, SayWhatTheProgramSays) {
  int several = 0;
  for (const plan::Algorithm* const algorithm : test::catalogue()) {
    for (const Rank ranks : {2, 4, 8}) {
      const plan::Shape shape{algorithm->collective, ranks};
      if (!algorithm->allows(shape)) continue;
      SCOPED_TRACE(test::name_of(*algorithm));
      for (const uint64_t window : {1000U, 128U}) {
        expect_slices_of(*algorithm, ranks, window, methods::get, {.mapped = true});
        expect_slices_of(*algorithm, ranks, window, methods::slots, {.push_bytes = 1 << 17});
      }
      ++several;
    }
  }
  EXPECT_GT(several, 60);
}

}  // namespace
}  // namespace tutti::exec::gpu
