// Programs of transfers by shape: what a call tells them, and how replicas divide it.
#include <gtest/gtest.h>

#include <vector>

#include "exec/gpu/transfers.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr uint64_t kMessage = 4096;

/// Every byte of a transfer is in the share of one replica, in order, and the rest is one replica's.
TEST(TransferShares, HoldEveryByteOnce) {
  for (const uint32_t most : {1U, 2U, 3U, 8U}) {
    for (uint64_t bytes = 0; bytes <= 30 * kMessage; bytes += bytes < 10 ? 1 : 509) {
      const TransferPart part = part_of(nullptr, bytes, 0, kMessage, most);
      uint64_t next = 0;
      int rests = 0;
      for (uint32_t replica = 0; replica < most; ++replica) {
        const TransferShare share = share_of(part, replica);
        if (share.count != 0) {
          EXPECT_EQ(share.first, next) << bytes << " bytes, replica " << replica << " of " << most;
        }
        next += share.count;
        rests += share.has_rest ? 1 : 0;
        const bool takes_part = replica < part.width;
        EXPECT_EQ(share.count != 0 || share.has_rest, takes_part) << bytes << " bytes, replica " << replica;
      }
      EXPECT_EQ(next, bytes / kMessage) << bytes;
      EXPECT_EQ(rests, bytes % kMessage != 0 || bytes == 0 ? 1 : 0) << bytes << " bytes: no bytes are one message";
    }
  }
}

TEST(TransferShares, DifferByOneMessage) {
  for (uint32_t replica = 0; replica < 8; ++replica) {
    const TransferShare share = share_of(part_of(nullptr, 29 * kMessage, 0, kMessage, 8), replica);
    EXPECT_EQ(share.count, replica < 5 ? 4U : 3U);
  }
}

unsigned char* at(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

/// Three transfers in two lanes, and a fold: one shape whatever their lengths, tags and addresses are.
Direct sample(uint64_t bytes) {
  Direct direct{.message = kMessage, .link_lane = 7};
  direct.transfers = {{{2}, true, at(1000 + bytes), bytes, 11},
                      {{1}, false, at(2000 + bytes), bytes + 1, 12},
                      {{2}, true, at(3000 + bytes), bytes + 2, 13}};
  direct.folds = {{at(4000), at(5000), bytes + 3, 14}};
  return direct;
}

TEST(TransferShapes, AreOfPeersDirectionsAndOrderAlone) {
  EXPECT_EQ(shape_of(sample(0)), shape_of(sample(5000)));
  Direct other = sample(0);
  other.transfers[0].send = false;
  EXPECT_NE(shape_of(sample(0)), shape_of(other));
  other = sample(0);
  other.transfers[0].peers = {1};
  EXPECT_NE(shape_of(sample(0)), shape_of(other));
  other = sample(0);
  other.message = 2 * kMessage;
  EXPECT_NE(shape_of(sample(0)), shape_of(other));
  other = sample(0);
  other.folds.clear();
  EXPECT_NE(shape_of(sample(0)), shape_of(other));
}

/// Ranks 2 and 3 are of another host: a block for 1, 2 and 3 is sent twice, once by several replicas and once by one.
TEST(TransferShapes, FarPeersHaveTransfersOfTheirOwn) {
  const auto is_far = [](Rank peer) { return peer >= 2; };
  Direct call{.message = kMessage};
  call.transfers = {{{1, 2, 3}, true, at(1000), 9, 11}, {{1}, false, at(2000), 9, 12}, {{3}, false, at(3000), 9, 13}};
  const Direct parted = with_far_apart(call, is_far);
  ASSERT_EQ(parted.transfers.size(), 4U);
  EXPECT_EQ(parted.transfers[0].peers, std::vector<Rank>{1});
  EXPECT_EQ(parted.transfers[1].peers, (std::vector<Rank>{2, 3}));
  for (const size_t i : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(parted.transfers[i].data, at(1000));
    EXPECT_EQ(parted.transfers[i].tag, 11U);
  }
  EXPECT_EQ(parted.transfers[2].peers, std::vector<Rank>{1});
  EXPECT_EQ(parted.transfers[3].peers, std::vector<Rank>{3});
}

/// The parts are in the order of the program's instructions, two for each.
TEST(TransferShapes, PartsFollowTheInstructions) {
  const Direct call = sample(10000);
  const std::vector<TransferPart> parts = parts_of(call, [](const std::vector<Rank>&) { return 8U; });
  ASSERT_EQ(parts.size(), 5U);
  const PeerTraits traits(3, {{.push_bytes = 1 << 20}, {.push_bytes = 1 << 20}});
  const Program program = lower_direct(example_of(call), 0, 3, traits);
  ASSERT_EQ(program.last.ops.size(), 8U);
  EXPECT_EQ(program.last.lanes.size(), 3U);
  size_t first = 0;
  for (const Range& lane : program.last.lanes) {
    EXPECT_EQ(lane.begin, 2 * first);
    for (uint32_t op = lane.begin; op < lane.end; ++op) {
      const Instruction& instruction = program.last.ops[op];
      EXPECT_EQ(instruction.bytes, op % 2 == 0 ? kMessage : kMessage / 2);
      EXPECT_EQ(instruction.segments.end - instruction.segments.begin, 1U);
    }
    first = lane.end / 2;
  }
  // The lane from rank 1, then that to rank 2 with its two transfers, then the fold and its result.
  EXPECT_EQ(parts[0].at, 12000U);
  EXPECT_EQ(parts[1].at, 11000U);
  EXPECT_EQ(parts[2].at, 13000U);
  EXPECT_EQ(parts[3].at, 4000U);
  EXPECT_EQ(parts[4].at, 5000U);
  EXPECT_EQ(parts[1].tag, 11U);
  EXPECT_EQ(parts[4].rest, 10003U - 2 * kMessage);
  EXPECT_EQ(width_of(parts), 2U);
}

}  // namespace
}  // namespace tutti::exec::gpu
