// Replies of a call board, and invalid ones.
#include "comm/call_board.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "comm/vector_calls.hpp"
#include "control/messages.hpp"

namespace tutti::comm {
namespace {

std::shared_ptr<const VectorBlocks> blocks_of(Rank ranks) {
  VectorBlocks v;
  v.in.counts.resize(static_cast<size_t>(ranks));
  std::iota(v.in.counts.begin(), v.in.counts.end(), 10);
  v.out.counts.assign(static_cast<size_t>(ranks), 3);
  return std::make_shared<const VectorBlocks>(std::move(v));
}

TEST(CallBoard, RepliesWithBlockLengthsInParts) {
  constexpr Rank kRanks = 300;
  CallBoard board;
  board.enter_blocks(7, blocks_of(kRanks));
  std::vector<uint64_t> sent;
  for (Rank first = 0; first < kRanks; first += CallBoard::kBlocksInAnAnswer) {
    const std::string bytes = board.answer(blocks_key(7, first));
    EXPECT_LE(bytes.size(), control::kMaxSmall);
    const auto part = CallBoard::parse_blocks(bytes);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->expected, std::vector<uint64_t>(part->sent.size(), 3));
    sent.insert(sent.end(), part->sent.begin(), part->sent.end());
  }
  EXPECT_EQ(sent, blocks_of(kRanks)->in.counts);
}

TEST(CallBoard, KnowsTheLastSendToEachPeer) {
  CallBoard board(6);
  const auto transfer = [](bool sends, Rank peer) {
    return CallSpec{.collective = Collective::SendRecv, .sends = sends, .root = peer};
  };
  EXPECT_EQ(board.sends_to(3), 0U);
  board.enter_transfer(1, transfer(true, 3));
  board.enter_transfer(2, transfer(true, 3));
  board.enter_transfer(7, transfer(false, 3));
  EXPECT_EQ(board.sends_to(3), 2U);
  EXPECT_EQ(board.sends_to(5), 0U);
  const uint64_t many = 3 * CallBoard::kEntries;
  for (uint64_t number = 1; number <= many; ++number) board.enter_transfer(number, transfer(true, 4));
  EXPECT_EQ(board.sends_to(4), many);
  EXPECT_EQ(board.sends_to(3), 2U) << "the entry is off the board, its number is not";
  for (const Rank stranger : {-1, 6}) EXPECT_EQ(board.sends_to(stranger), std::nullopt);
  board.uncount_sends();
  EXPECT_EQ(board.sends_to(4), std::nullopt);
}

TEST(CallBoard, HasNoReplyForUnknownBlocks) {
  CallBoard board;
  board.enter_blocks(7, blocks_of(3));
  EXPECT_FALSE(CallBoard::parse_blocks(board.answer(blocks_key(8, 0)))) << "never entered";
  EXPECT_FALSE(CallBoard::parse_blocks(board.answer(blocks_key(7, 3)))) << "no such rank";
  for (uint64_t call = 8; call < 100; ++call) board.enter_blocks(call, blocks_of(3));
  EXPECT_FALSE(CallBoard::parse_blocks(board.answer(blocks_key(7, 0)))) << "long ago";
  EXPECT_TRUE(CallBoard::parse_blocks(board.answer(blocks_key(99, 2))));
}

TEST(CallBoard, InvalidLengthsAreRejected) {
  for (const size_t size : {0, 1, 8, 15, 17, 24}) EXPECT_FALSE(CallBoard::parse_blocks(std::string(size, 'x'))) << size;
}

TEST(CallBoard, KeysOfDifferentKindsDiffer) {
  CallBoard board;
  const CallSpec call{.collective = Collective::AllReduce, .count = 5};
  const CallSpec transfer{.collective = Collective::SendRecv, .sends = true, .root = 1, .count = 9};
  board.enter(7, call);
  EXPECT_EQ(board.enter_transfer(7, transfer), transfer_key(true, 1, 7));
  EXPECT_EQ(CallBoard::parse(board.answer(7))->spec, call);
  EXPECT_EQ(CallBoard::parse(board.answer(transfer_key(true, 1, 7)))->spec, transfer);
  EXPECT_EQ(CallBoard::parse(board.answer(transfer_key(false, 1, 7)))->spec, std::nullopt);
  EXPECT_EQ(board.answer(blocks_key(7, 0)), "");
}

}  // namespace
}  // namespace tutti::comm
