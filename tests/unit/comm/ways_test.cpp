// By which rules a call's bytes travel, where ranks reach each other's memory.
#include "comm/ways.hpp"

#include <gtest/gtest.h>

#include "transports/link.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Ways ways(Collective collective, uint64_t block, Rank ranks = 2, bool in_place = false) {
  return ways_of({.collective = collective, .type = DType::U8, .count = block}, ranks, {}, in_place);
}

TEST(Ways, PastTheCacheGoWhatAllRanksTogetherWouldPushOutOfIt) {
  EXPECT_FALSE(ways(Collective::AllToAll, 4 * kMiB - 1).stream);  // two ranks, two buffers of two blocks each
  EXPECT_TRUE(ways(Collective::AllToAll, 4 * kMiB).stream);
  EXPECT_TRUE(ways(Collective::AllToAll, kMiB, 4).stream);
  EXPECT_FALSE(ways(Collective::AllReduce, 4 * kMiB - 1).stream);
  EXPECT_TRUE(ways(Collective::AllReduce, 4 * kMiB).stream);
  EXPECT_TRUE(ways(Collective::AllReduce, 2 * kMiB, 4).stream);
}

TEST(Ways, InPlaceResultsStayInTheCacheButABroadcasts) {
  EXPECT_FALSE(ways(Collective::AllReduce, 256 * kMiB, 2, true).stream);
  EXPECT_FALSE(ways(Collective::AllGather, 256 * kMiB, 2, true).stream);
  EXPECT_TRUE(ways(Collective::Broadcast, 16 * kMiB, 2, true).stream);
  EXPECT_FALSE(ways(Collective::Broadcast, 16 * kMiB - 1, 2, true).stream);
}

TEST(Ways, RanksFoldIntoEachOthersResultsWhereInputAndOutputBeginTogetherOrAreApart) {
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(ways(Collective::AllReduce, kMiB, 2, in_place).place_from, transports::kLendFrom);
    EXPECT_EQ(ways(Collective::AllGather, kMiB, 2, in_place).place_from, transports::kNeverLend) << "nothing is folded";
  }
  EXPECT_EQ(ways(Collective::Reduce, kMiB).place_from, transports::kLendFrom);
  EXPECT_EQ(ways(Collective::ReduceScatter, kMiB, 2, true).place_from, transports::kNeverLend);
}

}  // namespace
}  // namespace tutti::comm
