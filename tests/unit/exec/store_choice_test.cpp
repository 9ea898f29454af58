#include "exec/store_choice.hpp"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kBytes = 32768;
constexpr double kFast = 0.03e-9, kSlow = 0.4e-9;  // seconds a byte, as measured

/// Messages of a stage, on a clock of the test's own.
struct Stores {
  /// One message, stored at this price; ordinary stores at `ordinary`, streamed ones at kFast. Was it streamed?
  bool message(double ordinary) {
    const bool streamed = choice.next(kBytes);
    const std::chrono::duration<double> took((streamed ? kFast : ordinary) * kBytes);
    const auto begin = now;
    now += std::chrono::duration_cast<std::chrono::nanoseconds>(took);
    if (choice.timed()) choice.took(begin, now, kBytes), ++timed;
    return streamed;
  }
  /// How many of so many messages are streamed.
  int streamed(int messages, double ordinary) {
    int count = 0;
    for (int i = 0; i < messages; ++i) count += message(ordinary) ? 1 : 0;
    return count;
  }

  StoreChoice choice;
  std::chrono::steady_clock::time_point now{1h};
  int timed = 0;
};

TEST(StoreChoice, IsOrdinaryWhereThatIsFastAndLooksAtTheClockRarely) {
  Stores stores;
  EXPECT_EQ(stores.streamed(800, kFast), 0);
  EXPECT_EQ(stores.timed, 100);
}

TEST(StoreChoice, StreamsAfterThreeSlowMessages) {
  Stores stores;
  stores.streamed(7, kFast);
  EXPECT_EQ(stores.streamed(3, kSlow), 0) << "the 8th is timed, and the two after it";
  EXPECT_TRUE(stores.message(kSlow));
  EXPECT_EQ(stores.streamed(100, kSlow), 100);
}

TEST(StoreChoice, ForgivesWhatAnInterruptTakes) {
  Stores stores;
  for (int i = 0; i < 20; ++i) {
    stores.streamed(7, kFast);
    EXPECT_FALSE(stores.message(100 * kSlow));
  }
  EXPECT_EQ(stores.streamed(50, kFast), 0);
}

TEST(StoreChoice, ProbesRarelyWhereMessagesAreRare) {
  Stores stores;
  stores.streamed(11, kSlow);
  int ordinary = 0;
  for (int i = 0; i < 4000; ++i) {
    stores.now += 10ms;  // a probe of 64 messages takes some 0.7 s
    ordinary += stores.message(kSlow) ? 0 : 1;
  }
  EXPECT_GT(ordinary, 0);
  EXPECT_LT(ordinary, 4000 / 10);
}

/// Slots that were streamed to are fast to store to once, wherever readers are: so a probe goes round all of them.
TEST(StoreChoice, ProbesNowAndThenAndGoesOnStreamingWhereOrdinaryStoresAreStillSlow) {
  Stores stores;
  stores.streamed(11, kSlow);
  stores.now += 300ms;
  const int slots = static_cast<int>(machine_constants().long_ring / kBytes);
  const int ordinary = 1000 - stores.streamed(1000, kSlow);
  EXPECT_GT(ordinary, slots);
  EXPECT_LE(ordinary, slots + 10);
  EXPECT_EQ(stores.streamed(1000, kSlow), 1000) << "the next probe comes later";
}

TEST(StoreChoice, IsOrdinaryAgainWhenTheReadersHaveComeNear) {
  Stores stores;
  stores.streamed(11, kSlow);
  stores.now += 300ms;
  stores.streamed(200, kFast);
  EXPECT_EQ(stores.streamed(1000, kFast), 0);
  EXPECT_GT(stores.streamed(1000, kSlow), 900) << "and streamed when they have gone";
}

}  // namespace
}  // namespace tutti::exec
