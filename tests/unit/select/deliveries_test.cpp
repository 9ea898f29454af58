// The rules by which a call's bytes are delivered between ranks that can read each other's memory.
#include "select/deliveries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool nontemporal(Collective collective, uint64_t block, Rank ranks = 2, bool in_place = false, Rank near = 0) {
  return is_nontemporal(collective, block, ranks, near > 0 ? near : ranks, in_place);
}

TEST(Deliveries, NontemporalStoresStartAtTheCacheSizeOfAllRanks) {
  EXPECT_FALSE(nontemporal(Collective::AllToAll, 4 * kMiB - 1));  // two ranks, two buffers of two blocks each
  EXPECT_TRUE(nontemporal(Collective::AllToAll, 4 * kMiB));
  EXPECT_TRUE(nontemporal(Collective::AllToAll, kMiB, 4));
  EXPECT_FALSE(nontemporal(Collective::AllReduce, 4 * kMiB - 1));
  EXPECT_TRUE(nontemporal(Collective::AllReduce, 4 * kMiB));
  EXPECT_TRUE(nontemporal(Collective::AllReduce, 2 * kMiB, 4));
}

TEST(Deliveries, TheLengthsOfCmaFollowTheAgreedShift) {
  const auto reads = [](uint64_t block, int shift) {
    return deliveries_of(Collective::AllToAll, block, 2, {.shifts = {.cma = shift}}).cma_from != link::kNever;
  };
  const uint64_t table = machine_constants().cma_all_to_all_from;
  EXPECT_TRUE(reads(table, 0));
  EXPECT_FALSE(reads(table, 1));
  EXPECT_TRUE(reads(2 * table, 1));
  EXPECT_TRUE(reads(table / 4, -2));
  EXPECT_FALSE(reads(table / 4 - 1, -2));
  EXPECT_EQ(deliveries_of_transfers({.shifts = {.cma = 1}}).cma_from, 2 * machine_constants().cma_transfer_from);
}

TEST(Deliveries, WhereTheKernelsCopyNeverPaysNothingIsReadByIt) {
  const HandOver agreed{.shifts = {.no_cma = true}};
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    EXPECT_EQ(deliveries_of(collective, 2 * kMiB, 2, agreed).cma_from, link::kNever) << name_of(collective);
  }
  EXPECT_EQ(deliveries_of_transfers(agreed).cma_from, link::kNever);
  EXPECT_EQ(deliveries_of_transfers({.always_cma = true, .shifts = {.no_cma = true}}).cma_from, 0u) << "demanded";
}

TEST(Deliveries, BlocksToFoldAreNotReadByTheKernelWhereItsTilesAreSlow) {
  const uint64_t block = 2 * machine_constants().cma_reduce_scatter_from;
  const auto from = [&](Collective collective, bool slow) {
    return deliveries_of(collective, block, 2, {.shifts = {.no_cma_folds = slow}}).cma_from;
  };
  EXPECT_NE(from(Collective::ReduceScatter, false), link::kNever);
  EXPECT_EQ(from(Collective::ReduceScatter, true), link::kNever);
  EXPECT_NE(from(Collective::AllToAll, true), link::kNever) << "copies nothing but whole blocks";
}

TEST(Deliveries, LengthsAboutWaitingAndCachesFollowTheAgreedShifts) {
  const uint64_t zcopy = machine_constants().zcopy_from;
  EXPECT_EQ(zcopy_from({.shifts = {.wait = 1}}), 2 * zcopy);
  EXPECT_EQ(deliveries_of_transfers({.shifts = {.wait = -1}}).cooperative_from,
            machine_constants().cooperative_from / 2);
  const auto gathers = [](uint64_t block, int shift) {
    return deliveries_of(Collective::AllGather, block, 2, {.shifts = {.caches = shift}}).cma_from != link::kNever;
  };
  EXPECT_FALSE(gathers(8 * kMiB, 0));
  EXPECT_TRUE(gathers(8 * kMiB, 1));
}

TEST(Deliveries, ChangeOnlyAtTheirSteps) {
  for (const Rank ranks : {2, 3, 8}) {
    for (int c = 0; c < kCollectives; ++c) {
      const auto collective = static_cast<Collective>(c);
      const HandOver over{.shares_cores = ranks == 8};
      const std::vector<uint64_t> steps = delivery_steps(collective, ranks, over);
      for (uint64_t block = 1; block < 64 * kMiB; block += 1 + block / 64) {
        if (deliveries_of(collective, block, ranks, over) ==
            deliveries_of(collective, block + block / 64, ranks, over)) {
          continue;
        }
        EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                                [&](uint64_t step) { return step > block && step <= block + block / 64; }))
            << name_of(collective) << " of " << block;
      }
    }
  }
}

TEST(Deliveries, OnlyRanksOfOneHostShareTheCache) {
  EXPECT_FALSE(nontemporal(Collective::AllReduce, kMiB, 64, false, 4));
  EXPECT_TRUE(nontemporal(Collective::AllReduce, kMiB, 64, false, 8));
}

TEST(Deliveries, OnlyTheRootTouchesABlockOfEachRank) {
  EXPECT_FALSE(nontemporal(Collective::Gather, kMiB, 8)) << "16 MiB, not 72";
  EXPECT_TRUE(nontemporal(Collective::Gather, 2 * kMiB, 8));
}

TEST(Deliveries, InPlaceInputIsNotOverwrittenPastTheCache) {
  EXPECT_FALSE(nontemporal(Collective::AllReduce, 256 * kMiB, 2, true));
  EXPECT_FALSE(nontemporal(Collective::AllToAll, 256 * kMiB, 2, true));
  EXPECT_TRUE(nontemporal(Collective::AllGather, 8 * kMiB, 2, true));
  EXPECT_FALSE(nontemporal(Collective::AllGather, 8 * kMiB - 1, 2, true));
  EXPECT_TRUE(nontemporal(Collective::Broadcast, 16 * kMiB, 2, true));
  EXPECT_FALSE(nontemporal(Collective::Broadcast, 16 * kMiB - 1, 2, true));
}

}  // namespace
}  // namespace tutti::select
