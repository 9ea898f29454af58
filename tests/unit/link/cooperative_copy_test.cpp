// Cooperative copies and direct stores: all interleavings of steps, full speed, and a hostile other end.
#include "link/cooperative_copy.hpp"
#include "support/link_ends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "link/host_memory.hpp"
#include "support/interrupted.hpp"

namespace tutti::link {
namespace {

using test::Interrupted;

constexpr uint64_t kCma = static_cast<uint64_t>(Route::CmaWrite);

/// The bytes of a message of `tiles` tiles; the tests here do not use its content.
uint64_t bytes_of(uint64_t tiles) { return tiles * tile_of(1); }

template <class Memory>
struct Ends {
  using Wire = CooperativeWire<Memory>;

  std::unique_ptr<LinkMemory> memory = std::make_unique<LinkMemory>();
  HostWriter writer;
  HostReader reader;
  OutLink out = writing_end(*memory, &writer);
  InLink in = reading_end(*memory, &reader);
  OfferCopy offered;

  void publish(uint64_t tiles) {
    writer.messages[out.next % kCapacity] = {out.next + 1, nullptr, bytes_of(tiles)};
    out.zcopied = ++out.next;
  }
  void offer(uint64_t tiles) { Wire::offer(in, tiles, {kCma, 4096}); }
  void consume() { out.acked = ++in.next; }
  bool claim(Tiles& mine) { return Wire::find_offer(out, offered) && Wire::claim_back(out, offered, mine); }
};

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

/// Steps of both ends in random order; a step may run before any memory access of the other end's step.
class Interleaved : public Ends<Interrupted> {
 public:
  explicit Interleaved(uint64_t seed) : random_(seed) {}
  ~Interleaved() { Interrupted::interrupt = nullptr; }

  void copy_message(uint64_t tiles) {
    publish(tiles);
    owner_.assign(tiles, kNobody);
    offer(tiles);
    bool done = false;
    while (!done && !testing::Test::HasFatalFailure()) {
      const bool is_reader = random_() % 2 == 0;
      Interrupted::interrupt = [this, is_reader, &done] {
        if (random_() % 4 != 0) return;
        if (is_reader) {
          write();
        } else if (!done) {
          done = read();
        }
      };
      if (is_reader) {
        done = read();
      } else {
        write();
      }
      Interrupted::interrupt = nullptr;
    }
    consume();
    for (const int owner : owner_) ASSERT_NE(owner, kNobody);
  }
  uint64_t cooperative() const { return copied_by_writer_; }

 private:
  static constexpr int kNobody = 0, kReader = 1, kWriter = 2;

  /// True when the message is copied.
  bool read() {
    Tiles mine;
    switch (Wire::claim_front(in, mine)) {
      case TileStatus::Claimed:
        own(mine, kReader);
        return false;
      case TileStatus::Done:
        EXPECT_FALSE(copying_) << "the writer is still writing to the destination";
        return true;
      case TileStatus::Wait:
        break;
    }
    return false;
  }
  /// Claims tiles, copies them, or fails.
  void write() {
    Tiles mine;
    if (copying_) {
      copying_ = false;
      if (random_() % 8 == 0) {
        for (uint64_t i = 0; i < mine_.count; ++i) owner_[mine_.first + i] = kNobody;
        return Wire::withdraw(out);
      }
      copied_by_writer_ += mine_.count;
      return Wire::finish(out);
    }
    if (!claim(mine)) return;
    own(mine, kWriter);
    mine_ = mine;
    copying_ = true;
  }
  void own(const Tiles& tiles, int who) {
    ASSERT_LE(tiles.first + tiles.count, owner_.size());
    for (uint64_t i = tiles.first; i < tiles.first + tiles.count; ++i) {
      ASSERT_EQ(owner_[i], kNobody) << "tile " << i;
      owner_[i] = who;
    }
  }

  std::mt19937_64 random_;
  std::vector<int> owner_;  // of each tile
  Tiles mine_;
  bool copying_ = false;
  uint64_t copied_by_writer_ = 0;
};

TEST(CooperativeCopyInAnyOrder, GivesEveryTileToOneEnd) {
  uint64_t cooperative = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Interleaved ends(seed);
    for (uint64_t tiles = 1; tiles < 24; ++tiles) {
      ASSERT_NO_FATAL_FAILURE(ends.copy_message(tiles));
    }
    cooperative += ends.cooperative();
  }
  EXPECT_GT(cooperative, 100000u);
}

/// A reader that closes at any moment, and a writer that stores directly: never both own the destination.
TEST(DirectStoreInAnyOrder, NeverContinuesWhenTheReaderOwnsTheMemory) {
  int stored = 0, refused = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    Ends<Interrupted> ends;
    using Wire = Ends<Interrupted>::Wire;
    bool writing = false, readers = false;
    const auto give_up = [&] {
      if (readers || random() % 8 != 0) return;
      if (ends.in.host->cooperative.phase == CooperativeReader::Phase::Open) Wire::close(ends.in);
      readers = Wire::settled(ends.in);
      EXPECT_FALSE(readers && writing);
    };
    Wire::offer(ends.in, 3, {.route = kCma | kEarly, .target = 4096, .tag = 1});
    Interrupted::interrupt = give_up;
    if (Wire::find_early_offer(ends.out, 1, bytes_of(3), 0, ends.offered) && Wire::claim_all(ends.out, bytes_of(3))) {
      Interrupted::interrupt = nullptr;
      ASSERT_FALSE(readers);
      writing = true;
      for (int i = 0; i < 3; ++i) give_up();
      writing = false;
      Wire::finish(ends.out);
      ++stored;
    } else {
      ++refused;
    }
    Interrupted::interrupt = nullptr;
    while (!readers) give_up();
  }
  EXPECT_GT(stored, 1000);
  EXPECT_GT(refused, 1000);
}

/// Both at full speed, one word per tile. ThreadSanitizer reports two writers of a tile, and a read that comes too
/// early.
TEST(CooperativeCopyAtFullSpeed, CopiesEveryTileOnce) {
  constexpr uint64_t kMessages = 20000, kMost = 40;
  struct Shared {
    Ends<HostMemory> ends;
    uint64_t from[kMost], to[kMost];
    alignas(64) uint64_t published = 0;
  } shared;
  std::thread writer([&] {
    Ends<HostMemory>& ends = shared.ends;
    Tiles mine;
    for (uint64_t message = 0; message < kMessages; ++message) {
      for (uint64_t i = 0; i < kMost; ++i) shared.from[i] = message * kMost + i;
      ends.publish(1 + message % kMost);
      HostMemory::store_release(&shared.published, message + 1);
      for (;;) {
        HostWire::refresh(ends.out);
        if (ends.out.acked > message) break;
        if (!ends.claim(mine)) {
          std::this_thread::yield();
          continue;
        }
        for (uint64_t i = mine.first; i < mine.first + mine.count; ++i) shared.to[i] = shared.from[i];
        Ends<HostMemory>::Wire::finish(ends.out);
      }
    }
  });
  uint64_t wrong = 0;
  InLink& in = shared.ends.in;
  for (uint64_t message = 0; message < kMessages; ++message) {
    while (HostMemory::load_acquire(&shared.published) <= message) std::this_thread::yield();
    const uint64_t tiles = 1 + message % kMost;
    std::fill(shared.to, shared.to + tiles, 0);
    shared.ends.offer(tiles);
    Tiles mine;
    for (TileStatus status; (status = Ends<HostMemory>::Wire::claim_front(in, mine)) != TileStatus::Done;) {
      if (status == TileStatus::Wait) std::this_thread::yield();
      if (status != TileStatus::Claimed) continue;
      for (uint64_t i = mine.first; i < mine.first + mine.count; ++i) shared.to[i] = shared.from[i];
    }
    for (uint64_t i = 0; i < tiles; ++i) wrong += shared.to[i] != message * kMost + i ? 1U : 0U;
    HostWire::consume(in, {});
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace tutti::link
