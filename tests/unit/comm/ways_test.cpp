// By which rules a call's bytes travel, where ranks reach each other's memory.
#include "comm/ways.hpp"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Ways ways(Collective collective, uint64_t block, Rank ranks = 2, bool in_place = false, Rank near = 0) {
  return ways_of({.collective = collective, .type = DType::U8, .count = block}, ranks, near > 0 ? near : ranks, {},
                 in_place);
}

TEST(Ways, PastTheCacheGoWhatAllRanksTogetherWouldPushOutOfIt) {
  EXPECT_FALSE(ways(Collective::AllToAll, 4 * kMiB - 1).stream);  // two ranks, two buffers of two blocks each
  EXPECT_TRUE(ways(Collective::AllToAll, 4 * kMiB).stream);
  EXPECT_TRUE(ways(Collective::AllToAll, kMiB, 4).stream);
  EXPECT_FALSE(ways(Collective::AllReduce, 4 * kMiB - 1).stream);
  EXPECT_TRUE(ways(Collective::AllReduce, 4 * kMiB).stream);
  EXPECT_TRUE(ways(Collective::AllReduce, 2 * kMiB, 4).stream);
}

TEST(Ways, TheCacheIsOneHosts) {
  EXPECT_FALSE(ways(Collective::AllReduce, kMiB, 64, false, 4).stream);
  EXPECT_TRUE(ways(Collective::AllReduce, kMiB, 64, false, 8).stream);
}

TEST(Ways, OnlyTheRootHasABlockOfEachRank) {
  EXPECT_FALSE(ways(Collective::Gather, kMiB, 8).stream) << "16 MiB, not 72";
  EXPECT_TRUE(ways(Collective::Gather, 2 * kMiB, 8).stream);
}

TEST(Ways, InPlaceTheInputIsNotStoredOverPastTheCache) {
  EXPECT_FALSE(ways(Collective::AllReduce, 256 * kMiB, 2, true).stream);
  EXPECT_FALSE(ways(Collective::AllToAll, 256 * kMiB, 2, true).stream);
  EXPECT_TRUE(ways(Collective::AllGather, 8 * kMiB, 2, true).stream);
  EXPECT_FALSE(ways(Collective::AllGather, 8 * kMiB - 1, 2, true).stream);
  EXPECT_TRUE(ways(Collective::Broadcast, 16 * kMiB, 2, true).stream);
  EXPECT_FALSE(ways(Collective::Broadcast, 16 * kMiB - 1, 2, true).stream);
}

}  // namespace
}  // namespace tutti::comm
