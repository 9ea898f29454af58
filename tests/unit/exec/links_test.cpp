// Links are connected once; staging memory is divided among stages until it is full.
#include "exec/links.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/no_links.hpp"

namespace tutti::exec {
namespace {

TEST(Links, AreConnectedOnceAndKeepTheirNumbers) {
  struct Counting : NoLinks {
    int made = 0;
    link::OutLink connect_out(Rank peer, uint32_t) override { return ++made, link::OutLink{.peer = peer}; }
  } connector;
  Links links(connector);
  const uint32_t first = links.out({1, 0}), other_lane = links.out({1, 1}), other_peer = links.out({2, 0});
  EXPECT_EQ(links.out({1, 0}), first);
  EXPECT_EQ(links.out({1, 1}), other_lane);
  EXPECT_EQ(connector.made, 3);
  EXPECT_EQ(links.outs()[other_peer].peer, 2);
  EXPECT_EQ(links.outs()[other_lane].link_lane, 1u);
}

struct StagingOfAnArena : testing::Test {
  std::vector<unsigned char> memory = std::vector<unsigned char>(1 << 20);
  link::Arena arena{memory.data(), memory.size()};
  Staging staging{arena};
};

TEST_F(StagingOfAnArena, GivesStagesThatDoNotOverlap) {
  OwnedStage one(1000, {0}), two(5000, {0, 1});
  OwnedStage* const both[] = {&one, &two};
  ASSERT_TRUE(staging.assign(both));
  EXPECT_GE(one.stage.slots, link::kSlots);
  EXPECT_EQ(one.stage.slot_bytes, 1024u) << "whole pairs of cache lines";
  EXPECT_GE(two.stage.base, one.stage.base + one.stage.slots * one.stage.slot_bytes);
  EXPECT_LE(two.stage.base + two.stage.slots * two.stage.slot_bytes, arena.staging() + arena.staging_bytes());
  EXPECT_EQ(two.held.size(), two.stage.slots * 2);
  EXPECT_EQ(one.generation, staging.generation());
}

TEST(Staging, OfShortMessagesIsAShortRingAndOfOthersALongOne) {
  const MachineConstants& machine = machine_constants();
  std::vector<unsigned char> memory(machine.process_arena);
  link::Arena arena(memory.data(), memory.size());
  Staging staging(arena);
  const auto slots = [&](uint64_t bytes) {
    OwnedStage one(bytes, {0});
    OwnedStage* const stage = &one;
    EXPECT_TRUE(staging.assign({&stage, 1}));
    return one.stage.slots;
  };
  EXPECT_EQ(slots(256), machine.short_ring / 256);
  EXPECT_EQ(slots(machine.ring_from / 2), link::kFewestSlots);
  EXPECT_NEAR(slots(machine.ring_from) * double(machine.ring_from), double(machine.long_ring), 0.1 * machine.long_ring);
  EXPECT_NEAR(slots(64 << 10) * 65536.0, double(machine.long_ring), 0.1 * machine.long_ring);
  EXPECT_EQ(slots(1 << 20), link::kSlots);
}

/// Transfers: a stage for each peer, all of a part of the memory.
TEST(Staging, OfManyPeersHasRoomForAllWithinTheirPart) {
  std::vector<unsigned char> memory(machine_constants().process_arena);
  link::Arena arena(memory.data(), memory.size());
  Staging staging(arena);
  constexpr uint64_t kPeers = 40;
  for (uint32_t peer = 0; peer < kPeers; ++peer) {
    OwnedStage one(8192, {peer});
    OwnedStage* const stage = &one;
    EXPECT_TRUE(staging.assign({&stage, 1}, staging.bytes() / 4 / kPeers)) << peer;
    EXPECT_GE(one.stage.slots, link::kSlots);
  }
}

TEST(Arena, MakesMemoryUsableWhenItIsNeeded) {
  std::vector<unsigned char> memory(1 << 20);
  std::vector<std::pair<uint64_t, uint64_t>> made;  // [begin, end)
  link::Arena arena(memory.data(), memory.size(), 0,
                    [&](uint64_t offset, uint64_t bytes) { made.emplace_back(offset, offset + bytes); });
  EXPECT_TRUE(made.empty());
  const auto link = static_cast<uint64_t>(arena.reserve(1000) - memory.data());
  ASSERT_EQ(made.size(), 1u);
  EXPECT_LE(made[0].first, link);
  EXPECT_EQ(made[0].second, memory.size());
  arena.reserve(1000);
  EXPECT_EQ(made.size(), 1u) << "there was room";
  while (made.size() == 1) arena.reserve(1000);
  EXPECT_EQ(made[1].second, made[0].first) << "the next part, and no gap";
  made.clear();
  Staging staging(arena);
  OwnedStage small(1000, {0}), large(20000, {0});
  OwnedStage *first = &small, *second = &large;
  ASSERT_TRUE(staging.assign({&first, 1}));
  ASSERT_TRUE(staging.assign({&second, 1}));
  uint64_t usable = 0;
  for (const auto& [begin, end] : made) {
    EXPECT_EQ(begin, usable);
    usable = end;
  }
  const auto used =
      static_cast<uint64_t>(large.stage.base + large.stage.slots * large.stage.slot_bytes - memory.data());
  EXPECT_GE(usable, used);
  EXPECT_LT(usable, used + (128 << 10)) << "not all of it";
  staging.reset();
  const size_t parts = made.size();
  ASSERT_TRUE(staging.assign({&first, 1}));
  EXPECT_EQ(made.size(), parts) << "what is usable stays so";
}

TEST_F(StagingOfAnArena, GivesNothingWhenAllDoNotFit) {
  OwnedStage small(1000, {0}), large(arena.staging_bytes(), {0});
  OwnedStage* const both[] = {&small, &large};
  EXPECT_FALSE(staging.assign(both));
  EXPECT_EQ(small.stage.base, nullptr);
}

TEST_F(StagingOfAnArena, IsWholeAgainAfterAReset) {
  const uint64_t half = arena.staging_bytes() / 2 / link::kFewestSlots / 128 * 128;
  OwnedStage one(half, {0}), two(half, {0}), three(half, {0});
  OwnedStage *first = &one, *second = &two, *third = &three;
  ASSERT_TRUE(staging.assign({&first, 1}));
  ASSERT_TRUE(staging.assign({&second, 1}));
  EXPECT_FALSE(staging.assign({&third, 1}));
  staging.reset();
  EXPECT_NE(one.generation, staging.generation()) << "its memory is gone";
  ASSERT_TRUE(staging.assign({&third, 1}));
  EXPECT_EQ(three.stage.base, one.stage.base);
}

}  // namespace
}  // namespace tutti::exec
