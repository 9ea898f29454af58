// Message lengths of collectives, depending on the ranks' agreed capabilities.
#include "comm/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/planner_of.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

using transports::ReadAccess;

constexpr uint64_t kMessage = 64 << 10, kBlock = 1 << 20;  // bytes

/// Rank 0's planner, for ranks that can read each other's memory as given.
struct Ranks : PlannerOf {
  Ranks(ReadAccess reading, const char* forced, Rank n = 2, uint32_t threads = 1)
      : PlannerOf(n, {.reading = reading}, forced, kMessage, threads) {}
  const exec::Program& program(Collective collective, uint64_t bytes, const void* in, void* out, Op op = Op::Sum) {
    const uint64_t count = bytes / sizeof(float);
    const Call call{
        .spec = {.collective = collective, .type = DType::F32, .op = op, .count = count}, .in = in, .out = out};
    return planner.collective(call).program->execution->program();
  }
  uint64_t rounds(Collective collective, Op op = Op::Sum, uint64_t bytes = kBlock) {
    return program(collective, bytes, memory.data(), memory.data() + 1, op).rounds;
  }
};

TEST(Planner, MessagesFitStagingMemoryUnlessAllRanksCanReadDirectly) {
  Ranks ranks(ReadAccess::None, "all_to_all:one_shot");
  EXPECT_GE(ranks.rounds(Collective::AllToAll), kBlock / kMessage);
}

TEST(Planner, ZeroCopyMessagesAreNotLimitedByStaging) {
  for (const ReadAccess reading : {ReadAccess::Cma, ReadAccess::Direct}) {
    Ranks ranks(reading, "all_to_all:one_shot,broadcast:one_shot,reduce_scatter:one_shot");
    EXPECT_EQ(ranks.rounds(Collective::AllToAll), 1u);
    EXPECT_EQ(ranks.rounds(Collective::AllToAll, Op::Sum, 16 << 20), 4u) << "4 MiB each";
    EXPECT_EQ(ranks.rounds(Collective::ReduceScatter), 1u);
    EXPECT_EQ(ranks.rounds(Collective::Broadcast) == 1, reading == ReadAccess::Direct) << "1 MiB is not by_cma";
  }
}

TEST(Planner, ShortMessagesFitStagingMemory) {
  constexpr const char* kOneShot = "all_to_all:one_shot,broadcast:one_shot,reduce_scatter:one_shot,all_gather:one_shot";
  for (const Rank n : {2, 3, 24, 100}) {
    Ranks ranks(ReadAccess::Direct, kOneShot, n);
    for (const Collective collective :
         {Collective::AllToAll, Collective::Broadcast, Collective::ReduceScatter, Collective::AllGather}) {
      for (const uint64_t bytes : {44, 4096, 8188, 8192, 12 << 10, (4 << 20) + 4, (4 << 20) + 8000, (8 << 20) + 8188}) {
        EXPECT_GE(ranks.rounds(collective, Op::Sum, bytes), 1u);
      }
    }
  }
}

TEST(Planner, ShortSharedBlocksSentToAllAreStaged) {
  auto& memory = link::SharedMemory::of_this_process();
  void* const in = memory.allocate(kBlock);
  void* const out = memory.allocate(kBlock);
  Ranks ranks(ReadAccess::None, "all_reduce:two_shot,broadcast:one_shot,all_to_all:one_shot");
  const auto shares = [&](Collective collective, uint64_t bytes) {
    const auto& outs = ranks.program(collective, bytes, in, out).last.outs;
    return std::count_if(outs.begin(), outs.end(),
                         [](const exec::Out& one) { return one.delivery == exec::Delivery::Mapped; });
  };
  EXPECT_EQ(shares(Collective::AllReduce, (32 << 10) - 4), 0);
  EXPECT_EQ(shares(Collective::AllReduce, 32 << 10), 2) << "the input, and the result";
  EXPECT_EQ(shares(Collective::Broadcast, (64 << 10) - 4), 0);
  EXPECT_EQ(shares(Collective::Broadcast, 64 << 10), 1);
  EXPECT_EQ(shares(Collective::AllToAll, 16 << 10), 1);
  memory.release(in);
  memory.release(out);
}

TEST(Planner, AProgramSaysWhetherItLends) {  // else the call would end while peers still read its memory
  Ranks ranks(ReadAccess::None, "broadcast:one_shot");
  const auto lends = [&](uint64_t bytes) {
    return ranks.program(Collective::Broadcast, bytes, ranks.memory.data(), ranks.memory.data()).has_zero_copy;
  };
  EXPECT_FALSE(lends(machine_constants().zcopy_from - 4));
  EXPECT_TRUE(lends(machine_constants().zcopy_from));
}

TEST(Planner, ACollectiveMayHaveAnOrderOfItsOwn) {
  constexpr Rank kRanks = 4;
  select::CostInputs inputs{.ranks = kRanks, .groups = groups_of(std::vector<std::string>(kRanks, "here"), "")};
  inputs.staging = inputs.message = kMessage;
  inputs.forced = select::parse_forced("all_gather:ring,all_reduce:ring");
  inputs.own_orders[Collective::AllGather] = plan::RankOrder({0, 2, 1, 3});
  for (const auto& [collective, next] : {std::pair(Collective::AllGather, 2), std::pair(Collective::AllReduce, 1)}) {
    PlannerOf rank(kRanks, 0, select::DecisionTable(inputs));
    rank.planner.collective({.spec = {.collective = collective, .type = DType::F32, .count = 1024},
                             .in = rank.memory.data(),
                             .out = rank.memory.data() + kMessage});
    EXPECT_EQ(rank.nowhere.sends_to, std::set<Rank>{next}) << name_of(collective);
  }
}

TEST(Planner, AllRoundsMoveEqualAmounts) {
  for (const uint64_t bytes : {2 * kMessage, 4 * kMessage, kBlock, kBlock - 4}) {  // windows are a little shorter
    Ranks ranks(ReadAccess::None, "broadcast:one_shot");
    const exec::Program& lowered =
        ranks.program(Collective::Broadcast, bytes, ranks.memory.data(), ranks.memory.data());
    EXPECT_GT(lowered.rounds, 1);
    EXPECT_LT(lowered.rounds * lowered.window_bytes - bytes, lowered.rounds * 128) << bytes;
  }
}

TEST(Planner, AWideProgramHasAWindowForEachThread) {
  Ranks ranks(ReadAccess::Direct, "all_reduce:two_shot", 2, 4);
  const auto width = [&](uint64_t bytes) {
    const exec::Program& program =
        ranks.program(Collective::AllReduce, bytes, ranks.memory.data(), ranks.memory.data() + kBlock);
    EXPECT_GE(program.rounds, program.width);
    return program.width;
  };
  EXPECT_EQ(width(1 << 20), 4u);
  EXPECT_EQ(width(8), 1u) << "one round";
}

TEST(Planner, ScaledAndFoldedMessagesAreStaged) {
  Ranks ranks(ReadAccess::Direct, "all_reduce:two_shot,reduce_scatter:one_shot");
  EXPECT_GE(ranks.rounds(Collective::AllReduce), kBlock / kMessage / 2);
  EXPECT_GE(ranks.rounds(Collective::ReduceScatter, Op::PreMulSum), kBlock / kMessage);
}

}  // namespace
}  // namespace tutti::comm
