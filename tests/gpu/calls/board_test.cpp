// What the log says of a rank's calls while none ends.
#include "exec/gpu/board.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace tutti::exec::gpu {
namespace {

class Board : public testing::Test {
 protected:
  void wait(uint32_t block, uint64_t call, Rank peer) const {
    BlockWait& wait = record_->waits[block];
    wait.turn = 1;
    wait.call = call;
    wait.await_peer = static_cast<uint64_t>(Await::Message) << 32 | static_cast<uint32_t>(peer);
    wait.link_lane_step = uint64_t{5} << 32 | 7;
    wait.replica_lane = uint64_t{2} << 32 | 1;
    wait.round = 3;
    wait.rounds = 9;
  }
  const std::unique_ptr<HostRecord> record_ = std::make_unique<HostRecord>();
};

TEST_F(Board, SaysThatEnqueuedCallsDoNotBegin) {
  record_->started = record_->ended = 2;
  EXPECT_EQ(board_text(*record_, 4), "4 calls enqueued, 2 begun, 2 ended; no kernel of a call runs");
}

TEST_F(Board, SaysForWhatBlocksWait) {
  record_->started = 3;
  record_->ended = 2;
  EXPECT_EQ(board_text(*record_, 3), "3 calls enqueued, 3 begun, 2 ended; no block has told that it waits in call 3");
  wait(4, 3, 1);
  wait(5, 2, 1);        // of a call that has ended
  wait(6, 3, kNoRank);  // for nobody
  EXPECT_EQ(board_text(*record_, 3),
            "3 calls enqueued, 3 begun, 2 ended; block 4 waits in call 3 for rank 1 (message) at replica 2, lane 1, "
            "step 7, round 3 of 9");
}

TEST_F(Board, NamesTheFirstBlocksAndCountsTheOthers) {
  record_->started = 1;
  for (uint32_t block = 0; block < kMaxBlocks; ++block) wait(block, 1, 0);
  const std::string text = board_text(*record_, 0);  // replays of graphs are not counted when they are enqueued
  EXPECT_EQ(text.rfind("1 calls enqueued, 1 begun, 0 ended; block 0 waits", 0), 0U) << text;
  EXPECT_NE(text.find("block 7 waits"), std::string::npos) << text;
  EXPECT_EQ(text.find("block 8 waits"), std::string::npos) << text;
  EXPECT_NE(text.find("; and 56 more blocks"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::exec::gpu
