// Cooperative copies and direct stores: all interleavings of steps, and full speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "cooperative_ends.hpp"
#include "link/host_memory.hpp"
#include "support/interrupted.hpp"

namespace tutti::link {
namespace {

using test::Interrupted;

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
  constexpr uint64_t kMessages = 20000, kMax = 40;
  struct Shared {
    Ends<HostMemory> ends;
    uint64_t from[kMax], to[kMax];
    alignas(64) uint64_t published = 0;
  } shared;
  std::thread writer([&] {
    Ends<HostMemory>& ends = shared.ends;
    Tiles mine;
    for (uint64_t message = 0; message < kMessages; ++message) {
      for (uint64_t i = 0; i < kMax; ++i) shared.from[i] = message * kMax + i;
      ends.publish(1 + message % kMax);
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
    const uint64_t tiles = 1 + message % kMax;
    std::fill(shared.to, shared.to + tiles, 0);
    shared.ends.offer(tiles);
    Tiles mine;
    for (TileStatus status; (status = Ends<HostMemory>::Wire::claim_front(in, mine)) != TileStatus::Done;) {
      if (status == TileStatus::Wait) std::this_thread::yield();
      if (status != TileStatus::Claimed) continue;
      for (uint64_t i = mine.first; i < mine.first + mine.count; ++i) shared.to[i] = shared.from[i];
    }
    for (uint64_t i = 0; i < tiles; ++i) wrong += shared.to[i] != message * kMax + i ? 1U : 0U;
    HostWire::consume(in, {});
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace tutti::link
