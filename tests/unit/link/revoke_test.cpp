// Revoking zero-copy messages of a failed call: all interleavings of steps, and full speed.
#include "link/revoke.hpp"
#include "support/link_ends.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "link/host_memory.hpp"
#include "support/interrupted.hpp"

namespace tutti::link {
namespace {

using test::Interrupted;

template <class Memory>
struct Ends {
  using Wire = RevokeWire<Memory>;
  std::unique_ptr<LinkMemory> memory = std::make_unique<LinkMemory>();
  HostWriter writer;
  HostReader reader;
  OutLink out = writing_end(*memory, &writer);
  InLink in = reading_end(*memory, &reader);
};

struct Revocation : testing::Test, Ends<HostMemory> {};

TEST_F(Revocation, LetsAReaderReadAValidMessage) {
  EXPECT_FALSE(Wire::being_read(out));
  EXPECT_TRUE(Wire::begin_read(in));
  EXPECT_TRUE(Wire::being_read(out));
  Wire::end_read(in);
  EXPECT_FALSE(Wire::being_read(out));
  EXPECT_TRUE(Wire::still_valid(in));
}

TEST_F(Revocation, BeginsWithTheFirstUnconsumedMessage) {
  out.next = out.zcopied = 3;
  out.acked = 1;
  Wire::revoke(out);
  EXPECT_TRUE(Wire::begin_read(in)) << "a consumed message was valid when it was read";
  EXPECT_TRUE(Wire::still_valid(in));
  for (in.next = 1; in.next < 4; ++in.next) {
    EXPECT_FALSE(Wire::begin_read(in)) << in.next;
    EXPECT_FALSE(Wire::still_valid(in)) << in.next;
  }
}

TEST_F(Revocation, SeesAReadThatHasBegun) {
  ASSERT_TRUE(Wire::begin_read(in));
  Wire::revoke(out);
  EXPECT_TRUE(Wire::being_read(out));
  Wire::end_read(in);
  EXPECT_FALSE(Wire::being_read(out));
  EXPECT_FALSE(Wire::begin_read(in));
  Wire::end_read(in);
  EXPECT_FALSE(Wire::being_read(out));
}

/// The writer revokes at any moment: the memory is never read after it belongs to its owner.
TEST(RevocationInAnyOrder, NeverGivesBothTheMemory) {
  int read = 0, refused = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    Ends<Interrupted> ends;
    using Wire = Ends<Interrupted>::Wire;
    bool reading = false, revoked = false, owners = false;
    const auto give_up = [&] {
      if (owners || random() % 4 != 0) return;
      if (!std::exchange(revoked, true)) Wire::revoke(ends.out);
      owners = !Wire::being_read(ends.out);
      EXPECT_FALSE(owners && reading);
    };
    for (int message = 0; message < 3; ++message) {
      Interrupted::interrupt = give_up;
      if (Wire::begin_read(ends.in)) {
        ASSERT_FALSE(owners);
        reading = true;
        for (int i = 0; i < 2; ++i) give_up();
        reading = false;
        ++read;
      } else {
        ++refused;
      }
      Wire::end_read(ends.in);
      Interrupted::interrupt = nullptr;
    }
    while (!owners) give_up();
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

/// A reader in another process: what it accepts was valid while it read.
TEST(RevocationInAnyOrder, TellsAReaderOfAnotherProcessThatItReadTooLate) {
  int good = 0, late = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    Ends<Interrupted> ends;
    using Wire = Ends<Interrupted>::Wire;
    int value = 1, read = 0;
    Interrupted::interrupt = [&] {
      if (value == 2 || random() % 4 != 0) return;
      Wire::revoke(ends.out);
      value = 2;  // the owner's call has returned
    };
    Interrupted::pause();
    read = value;
    const bool lent = Wire::still_valid(ends.in);
    Interrupted::interrupt = nullptr;
    EXPECT_TRUE(!lent || read == 1);
    ++(lent ? good : late);
  }
  EXPECT_GT(good, 1000);
  EXPECT_GT(late, 1000);
}

/// ThreadSanitizer and AddressSanitizer report a reader that comes too late.
TEST(RevocationAtFullSpeed, FreesNoMemoryThatIsRead) {
  uint64_t sum = 0;
  for (int round = 0; round < 100; ++round) {
    Ends<HostMemory> ends;
    using Wire = Ends<HostMemory>::Wire;
    auto lent = std::make_unique<std::vector<uint64_t>>(64, 1);
    const std::vector<uint64_t>* const there = lent.get();
    std::thread reader([&] {
      while (Wire::begin_read(ends.in)) {
        for (const uint64_t word : *there) sum += word;
        Wire::end_read(ends.in);
      }
      Wire::end_read(ends.in);
    });
    for (int i = round % 50; i > 0; --i) std::this_thread::yield();
    Wire::revoke(ends.out);
    while (Wire::being_read(ends.out)) std::this_thread::yield();
    lent.reset();
    reader.join();
  }
  EXPECT_EQ(sum % 64, 0u);
}

}  // namespace
}  // namespace tutti::link
