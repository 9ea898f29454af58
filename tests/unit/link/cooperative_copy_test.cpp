// Cooperative copies and direct stores, step by step, and a hostile other end.
#include "link/cooperative_copy.hpp"

#include <gtest/gtest.h>

#include <random>

#include "cooperative_ends.hpp"
#include "link/host_memory.hpp"

namespace tutti::link {
namespace {

struct CooperativeCopy : testing::Test, Ends<HostMemory> {
  Tiles mine, theirs;
  TileStatus claim_front() { return Wire::claim_front(in, mine); }
};

TEST_F(CooperativeCopy, IsOptionalForTheReader) {
  publish(40);
  offer(40);
  uint64_t next = 0;
  while (claim_front() == TileStatus::Claimed) {
    EXPECT_EQ(mine.first, next);
    next += mine.count;
  }
  EXPECT_EQ(next, 40u);
  EXPECT_EQ(claim_front(), TileStatus::Done);
  EXPECT_FALSE(claim(theirs));
}

TEST_F(CooperativeCopy, TakesTilesFromTheBackAndIsAwaitedAtTheEnd) {
  publish(8);
  offer(8);
  ASSERT_TRUE(claim(theirs));
  EXPECT_EQ(theirs.first + theirs.count, 8u);
  uint64_t taken = 0;
  while (claim_front() == TileStatus::Claimed) taken += mine.count;
  EXPECT_EQ(taken, theirs.first);
  EXPECT_EQ(claim_front(), TileStatus::Wait);
  EXPECT_FALSE(Wire::settled(in));
  Tiles more;
  EXPECT_FALSE(claim(more)) << "the reader has closed it";
  Wire::finish(out);
  EXPECT_EQ(claim_front(), TileStatus::Done);
}

TEST_F(CooperativeCopy, LeavesTheTilesOfAFailedWriterToTheReader) {
  publish(4);
  offer(4);
  ASSERT_TRUE(claim(theirs));
  uint64_t taken = 0;
  while (claim_front() == TileStatus::Claimed) taken += mine.count;
  Wire::withdraw(out);
  ASSERT_EQ(claim_front(), TileStatus::Claimed);
  EXPECT_EQ(mine.first, taken);
  EXPECT_EQ(taken + mine.count, 4u);
  EXPECT_EQ(claim_front(), TileStatus::Done);
}

TEST_F(CooperativeCopy, ClaimsNothingOfAMessageThatHasEndedSinceTheOfferWasRead) {
  publish(8);
  publish(8);
  offer(8);
  ASSERT_TRUE(Wire::find_offer(out, offered));
  while (claim_front() == TileStatus::Claimed) continue;
  ++in.next;  // the reader continues with the second message; the writer does not know
  offer(8);
  EXPECT_FALSE(Wire::claim_back(out, offered, theirs)) << "the first destination belongs to its owner again";
  EXPECT_TRUE(Wire::settled(in));
  EXPECT_TRUE(claim(theirs)) << "the second message";
}

TEST_F(CooperativeCopy, CopiesNoMessageAgainForAReaderThatGoesBack) {
  publish(2);
  publish(2);
  offer(2);
  while (claim(theirs)) Wire::finish(out);
  ++in.next;
  offer(2);
  ASSERT_TRUE(claim(theirs));
  Wire::finish(out);
  --in.next;
  offer(2);
  EXPECT_FALSE(claim(theirs)) << "it has copied that message";
}

TEST_F(CooperativeCopy, EndsWhenTheReaderClosesEarly) {
  publish(64);
  offer(64);
  ASSERT_TRUE(claim(theirs));
  Wire::close(in);
  EXPECT_FALSE(Wire::settled(in));
  Wire::finish(out);
  EXPECT_TRUE(Wire::settled(in));
  EXPECT_FALSE(claim(theirs));
}

TEST_F(CooperativeCopy, IsForUnconsumedZeroCopyMessages) {
  EXPECT_FALSE(claim(theirs)) << "no offer was ever made";
  publish(4);
  offer(4);
  ASSERT_TRUE(claim(theirs));
  Wire::finish(out);
  consume();
  EXPECT_FALSE(claim(theirs));
  memory->offer.front = 1 << kCountBits;  // the reader offers it again
  EXPECT_FALSE(claim(theirs)) << "the memory may be reused";
  ++out.next;  // a message that is not zero-copy
  memory->offer.front = 2 << kCountBits;
  EXPECT_FALSE(claim(theirs));
  memory->offer.front = 3 << kCountBits;  // a message that is not published
  EXPECT_FALSE(claim(theirs));
}

// An early offer: for the second message from now, with tag 7, after three messages of the reader have arrived.

struct EarlyOffer : CooperativeCopy {
  static constexpr uint64_t kTag = 7, kTiles = 5;
  void offer_ahead() {
    Wire::offer(in, kTiles, {.route = kCma | kEarly, .target = 4096, .ahead = 1, .tag = kTag, .after = 3});
  }
  bool find_early_offer(uint64_t tag = kTag, uint64_t had = 3) {
    return Wire::find_early_offer(out, tag, bytes_of(kTiles), had, offered);
  }
};

TEST_F(EarlyOffer, IsForTheMessageThatItWasOfferedFor) {
  EXPECT_FALSE(find_early_offer()) << "nothing is offered";
  offer_ahead();
  EXPECT_FALSE(find_early_offer()) << "the next message is another one";
  publish(1);
  EXPECT_FALSE(find_early_offer(kTag + 1)) << "another call";
  EXPECT_FALSE(find_early_offer(kTag, 2)) << "the destination is still to be read";
  ASSERT_TRUE(find_early_offer());
  EXPECT_EQ(offered.target, 4096u);
  publish(1);
  EXPECT_FALSE(find_early_offer()) << "the message is published already";
}

TEST_F(EarlyOffer, DiffersFromAnOfferForACopy) {
  publish(1);
  Wire::offer(in, kTiles, {.route = kCma, .target = 4096, .ahead = 1, .tag = kTag});
  EXPECT_FALSE(find_early_offer());
}

TEST_F(EarlyOffer, LeavesNothingToCopy) {
  offer_ahead();
  publish(1);
  consume();
  ASSERT_TRUE(find_early_offer());
  ASSERT_TRUE(Wire::claim_all(out, bytes_of(kTiles)));
  Wire::close(in);
  EXPECT_FALSE(Wire::settled(in)) << "the writer is storing";
  EXPECT_EQ(claim_front(), TileStatus::Wait);
  Wire::finish(out);
  EXPECT_TRUE(Wire::settled(in));
  publish(kTiles);
  EXPECT_EQ(claim_front(), TileStatus::Done);
  EXPECT_FALSE(claim(theirs)) << "nothing is left to copy";
}

TEST_F(EarlyOffer, LeavesAllTilesToTheReaderIfUnused) {
  offer_ahead();
  publish(1);
  consume();
  publish(kTiles);
  EXPECT_FALSE(claim(theirs)) << "a cooperative copy would ignore `after`";
  Wire::close(in);
  ASSERT_EQ(claim_front(), TileStatus::Claimed);
  EXPECT_EQ(mine.first, 0u);
  EXPECT_EQ(mine.count, kTiles);
  EXPECT_EQ(claim_front(), TileStatus::Done);
}

TEST_F(EarlyOffer, CannotBeClaimedOnceClosed) {
  offer_ahead();
  publish(1);
  ASSERT_TRUE(find_early_offer());
  Wire::close(in);
  EXPECT_FALSE(Wire::claim_all(out, bytes_of(kTiles))) << "closed since it was read";
  EXPECT_TRUE(Wire::settled(in));
  EXPECT_FALSE(find_early_offer());
}

TEST_F(CooperativeCopy, StartsAgainWithTheNextMessage) {
  for (uint64_t message = 0; message < 3 * kCapacity; ++message) {
    publish(4);
    offer(4);
    ASSERT_TRUE(claim(theirs));
    EXPECT_EQ(theirs.first + theirs.count, 4u);
    Wire::finish(out);
    uint64_t taken = 0;
    while (claim_front() == TileStatus::Claimed) taken += mine.count;
    EXPECT_EQ(taken + theirs.count, 4u);
    consume();
  }
}

TEST_F(CooperativeCopy, IgnoresInvalidCounts) {
  std::mt19937_64 random(1);
  publish(40);
  for (int i = 0; i < 200000; ++i) {
    memory->offer.front = random() >> random() % 64;
    if (!claim(theirs)) continue;
    ASSERT_LE(theirs.first + theirs.count, 40u);
    ASSERT_LE(theirs.count, 40u);
    if (i % 2 == 0) Wire::withdraw(out);
    Wire::finish(out);
  }
  for (int i = 0; i < 200000; ++i) {
    offer(40);
    uint64_t taken = 0;
    for (int turn = 0; turn < 50; ++turn) {
      memory->claim = {random() >> random() % 64, random() >> random() % 64};
      if (turn % 2 == 0) memory->claim.back = 1 << kCountBits | random() >> random() % 64;
      if (claim_front() != TileStatus::Claimed) continue;
      ASSERT_EQ(mine.first, taken);
      taken += mine.count;
      ASSERT_LE(taken, 40u);
    }
  }
}

}  // namespace
}  // namespace tutti::link
