// The rules by which a call's bytes are delivered between ranks that can read each other's memory.
#include "comm/delivery_policy.hpp"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

constexpr uint64_t kMiB = 1 << 20;

DeliveryPolicy policy(Collective collective, uint64_t block, Rank ranks = 2, bool in_place = false, Rank near = 0) {
  return delivery_policy_for({.collective = collective, .type = DType::U8, .count = block}, ranks,
                             near > 0 ? near : ranks, {}, in_place);
}

TEST(DeliveryPolicy, NontemporalStoresStartAtTheCacheSizeOfAllRanks) {
  EXPECT_FALSE(policy(Collective::AllToAll, 4 * kMiB - 1).nontemporal);  // two ranks, two buffers of two blocks each
  EXPECT_TRUE(policy(Collective::AllToAll, 4 * kMiB).nontemporal);
  EXPECT_TRUE(policy(Collective::AllToAll, kMiB, 4).nontemporal);
  EXPECT_FALSE(policy(Collective::AllReduce, 4 * kMiB - 1).nontemporal);
  EXPECT_TRUE(policy(Collective::AllReduce, 4 * kMiB).nontemporal);
  EXPECT_TRUE(policy(Collective::AllReduce, 2 * kMiB, 4).nontemporal);
}

TEST(DeliveryPolicy, OnlyRanksOfOneHostShareTheCache) {
  EXPECT_FALSE(policy(Collective::AllReduce, kMiB, 64, false, 4).nontemporal);
  EXPECT_TRUE(policy(Collective::AllReduce, kMiB, 64, false, 8).nontemporal);
}

TEST(DeliveryPolicy, OnlyTheRootTouchesABlockOfEachRank) {
  EXPECT_FALSE(policy(Collective::Gather, kMiB, 8).nontemporal) << "16 MiB, not 72";
  EXPECT_TRUE(policy(Collective::Gather, 2 * kMiB, 8).nontemporal);
}

TEST(DeliveryPolicy, InPlaceInputIsNotOverwrittenPastTheCache) {
  EXPECT_FALSE(policy(Collective::AllReduce, 256 * kMiB, 2, true).nontemporal);
  EXPECT_FALSE(policy(Collective::AllToAll, 256 * kMiB, 2, true).nontemporal);
  EXPECT_TRUE(policy(Collective::AllGather, 8 * kMiB, 2, true).nontemporal);
  EXPECT_FALSE(policy(Collective::AllGather, 8 * kMiB - 1, 2, true).nontemporal);
  EXPECT_TRUE(policy(Collective::Broadcast, 16 * kMiB, 2, true).nontemporal);
  EXPECT_FALSE(policy(Collective::Broadcast, 16 * kMiB - 1, 2, true).nontemporal);
}

}  // namespace
}  // namespace tutti::comm
