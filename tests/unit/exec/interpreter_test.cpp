// The interpreter as a GPU runs it: each lane by a block of threads, the lanes of a rank at the same time.
#include "exec/interpreter.hpp"
#include "exec/no_remote_access.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <list>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "exec/compile/lower.hpp"
#include "exec/host/execution.hpp"
#include "exec/host/host_policies.hpp"
#include "plan/algorithm.hpp"
#include "support/exec_ranks.hpp"

namespace tutti::exec {
namespace {

/// What the threads of a block share.
struct Block {
  explicit Block(uint32_t count) : threads(count), all(count) {}
  const uint32_t threads;
  std::barrier<> all;
  Outcome outcome = Outcome::Progress;
};

/// One thread of a block.
struct BlockGroup {
  Block& block;
  const uint32_t number;
  bool leader() const { return number == 0; }
  uint32_t thread() const { return number; }
  uint32_t threads() const { return block.threads; }
  static const unsigned char** operands(const LaneState& lane, const Instruction&) { return lane.operands; }
  void sync() const { block.all.arrive_and_wait(); }
  Outcome broadcast(Outcome outcome) const {
    if (leader()) block.outcome = outcome;
    sync();
    const Outcome everyones = block.outcome;
    sync();  // nobody may overwrite it before all have read it
    return everyones;
  }
};

/// Each thread folds a part of the elements.
struct BlockReduce : InMemory {
  static void copy(const BlockGroup& group, unsigned char* to, const unsigned char* from, uint64_t bytes) {
    for (uint64_t i = group.number; i < bytes; i += group.block.threads) to[i] = from[i];
  }
  static void run(const BlockGroup& group, const Arithmetic& how, const Instruction& op, const Segment& whole,
                  unsigned char* to, unsigned char* slot, const unsigned char* const* operands) {
    const uint64_t elements = whole.bytes / how.element_bytes;
    const uint64_t begin = elements * group.number / group.block.threads * how.element_bytes;
    const uint64_t end = elements * (group.number + 1) / group.block.threads * how.element_bytes;
    if (begin == end) return;
    Segment part = whole;
    part.bytes = end - begin;
    std::vector<const unsigned char*> from;
    for (uint32_t k = 0; k < op.sources; ++k) from.push_back(operands[k] + begin);
    HostReduce::run({}, how, op, part, to == nullptr ? nullptr : to + begin, slot == nullptr ? nullptr : slot + begin,
                    from.data());
  }
};

using BlockInterpreter = Interpreter<BlockGroup, link::HostWire, BlockReduce, NoRemoteAccess>;

/// Links as between GPUs: ring and payload slots lie with the reader, the counter with the writer.
class Pushing : public Connector {
  static constexpr uint64_t kPushBytes = 1024;

 public:
  struct Link {
    alignas(link::kStride) unsigned char ring[link::kCapacity * link::kLine] = {};
    unsigned char slots[link::kPushSlots * kPushBytes];
    alignas(link::kStride) uint64_t consumed = 0;
  };
  using All = std::map<Wires::Key, Link>;

  Pushing(All& all, Rank rank) : all_(all), rank_(rank) {}
  link::LinkTraits traits(Rank) override { return {.out = {.push_bytes = kPushBytes}, .in = {}}; }
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override {
    Link& link = all_[{rank_, peer, link_lane}];
    return {.ring = link.ring, .consumed = &link.consumed, .arena = link.slots, .push_bytes = kPushBytes, .peer = peer};
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane) override {
    Link& link = all_[{peer, rank_, link_lane}];
    return {.ring = link.ring,
            .consumed = &link.consumed,
            .arena = link.slots,
            .arena_bytes = sizeof link.slots,
            .peer = peer};
  }

 private:
  All& all_;
  Rank rank_;
};

/// All ranks of an all-reduce of u32 sums, in several rounds.
class BlockRanks {
 public:
  BlockRanks(const char* algorithm, Rank ranks, uint32_t threads, bool pushes) : threads_(threads) {
    for (Rank r = 0; r < ranks; ++r) {
      const plan::RankPlan plan =
          plan::generate(*plan::find_algorithm(Collective::AllReduce, algorithm), {Collective::AllReduce, ranks}, r);
      auto& one = *ranks_.emplace_back(std::make_unique<One>());
      if (pushes) {
        one.connector = std::make_unique<Pushing>(pushing_, r);
      } else {
        one.connector = std::make_unique<Wired>(wires_, r);
      }
      one.links = std::make_unique<Links>(*one.connector);
      for (uint32_t i = 0; i < kCount; ++i) one.in.push_back(value(r, i));
      const Geometry geometry{.count = kCount, .window = kCount / 9, .element_bytes = 4};
      const PeerTraits traits(static_cast<size_t>(ranks), pushes ? one.connector->traits(0) : link::LinkTraits{});
      const Arithmetic sum{.fold = fold_function(DType::U32, Op::Sum), .element_bytes = 4};
      one.execution = std::make_unique<HostExecution>(lower(plan, geometry, traits), 4, sum, *one.links);
      one.execution->own_stages(*one.links);
      EXPECT_TRUE(one.staging.assign(one.execution->stages()));
      one.scratch.resize(one.execution->scratch_bytes + 1);
      one.replica().bind({.in = one.in.data(), .out = one.out.data(), .tag = 42}, one.scratch.data(), *one.links);
    }
  }

  /// Each lane of each rank on a block of its own.
  void run() {
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<std::jthread> threads;
    for (const auto& rank : ranks_) {
      RankState& state = rank->replica().state;
      for (uint32_t lane = 0; lane < state.lane_count; ++lane) {
        Block& block = *blocks.emplace_back(std::make_unique<Block>(threads_));
        for (uint32_t t = 0; t < threads_; ++t) {
          threads.emplace_back([&state, &block, lane, t] { run_lane(state, state.lanes[lane], {block, t}); });
        }
      }
    }
  }

  void expect_sums() const {
    for (const auto& rank : ranks_) {
      for (uint32_t i = 0; i < kCount; ++i) {
        uint32_t sum = 0;
        for (Rank r = 0; r < static_cast<Rank>(ranks_.size()); ++r) sum += value(r, i);
        ASSERT_EQ(rank->out[i], sum) << "element " << i;
      }
    }
  }

 private:
  static constexpr uint32_t kCount = 1000;
  struct One {
    Replica& replica() const { return *execution->replicas.front(); }
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Links> links;
    std::vector<uint32_t> in, out = std::vector<uint32_t>(kCount);
    std::vector<unsigned char> memory = std::vector<unsigned char>(1 << 20), scratch;
    link::Arena arena{memory.data(), memory.size()};
    Staging staging{arena};
    std::unique_ptr<HostExecution> execution;
  };

  static void run_lane(RankState& state, LaneState& lane, const BlockGroup& group) {
    for (;;) {
      const Outcome outcome = BlockInterpreter::try_step(group, state, lane);
      ASSERT_NE(outcome, Outcome::Fault) << static_cast<int>(state.fault.kind);
      if (outcome == Outcome::LaneDone) return;
      if (outcome == Outcome::Waiting) std::this_thread::yield();
    }
  }
  static uint32_t value(Rank rank, uint32_t i) { return static_cast<uint32_t>(rank) * 0x01000193u + i * 7919u; }

  const uint32_t threads_;
  Wires wires_;
  Pushing::All pushing_;
  std::vector<std::unique_ptr<One>> ranks_;
};

void expect_sums(bool pushes) {
  for (const char* algorithm : {"ring", "binomial", "double_tree", "two_shot", "recursive_doubling"}) {
    SCOPED_TRACE(algorithm);
    BlockRanks ranks(algorithm, 4, 4, pushes);
    ranks.run();
    ranks.expect_sums();
    BlockRanks larger(algorithm, 2, 32, pushes);
    larger.run();
    larger.expect_sums();
  }
}

TEST(Interpreter, RunsLanesByBlocksOfThreads) { expect_sums(false); }

TEST(Interpreter, PushesMessagesToReadersThatHoldTheRing) { expect_sums(true); }

TEST(Interpreter, KeepsOneOfTheFaultsThatLanesFindAtTheSameTime) {
  RankState state;
  std::vector<std::jthread> lanes;
  for (uint32_t lane = 0; lane < 8; ++lane) {
    lanes.emplace_back([&state, lane] {
      const Fault mine{.kind = FaultKind::OtherCall, .lane = lane, .step = lane + 1};
      EXPECT_EQ(BlockInterpreter::fail(state, mine), Outcome::Fault);
    });
  }
  lanes.clear();
  EXPECT_EQ(state.fault.kind, FaultKind::OtherCall);
  EXPECT_EQ(state.fault.step, state.fault.lane + 1);
}

/// A writer that claims that its message lies in another process, where the program expects a plain one.
TEST(Interpreter, RefusesAMessageInAnotherProcessWhereItExpectsNone) {
  for (const link::Where where : {link::Where::Cma, link::Where::Mapped}) {
    link::LinkMemory memory{};
    link::HostWriter writer;
    link::HostReader reader;
    link::OutLink out = link::writing_end(memory, &writer);
    unsigned char arena = 0;
    out.arena = &arena;
    const link::SharedRegion region{.id = 5};
    if (where == link::Where::Cma) link::HostWire::publish_zcopy(out, 0, &arena, 4);
    if (where == link::Where::Mapped) link::HostWire::publish_mapped(out, 0, region, nullptr, 4);
    link::InLink in = link::reading_end(memory, &reader);
    in.cma = 1, in.mapped = true;
    const Range lane_ops{0, 1};
    const Instruction op{.arrivals = {0, 1}, .bytes = 4, .sources = 1};
    const uint32_t arrivals = 0;
    RankState state;
    state.last = {.lanes = &lane_ops, .ops = &op, .arrivals = &arrivals};
    state.in = &in;
    link::Arrival arrival;
    const unsigned char* operand = nullptr;
    LaneState lane;
    lane.arrivals = &arrival;
    lane.operands = &operand;
    EXPECT_EQ(HostInterpreter::try_step({}, state, lane), Outcome::Fault);
    EXPECT_EQ(state.fault.kind, FaultKind::BadHeader);
  }
}

}  // namespace
}  // namespace tutti::exec
