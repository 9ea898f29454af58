#include "exec/store_choice.hpp"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kBytes = 32768;
constexpr double kCheap = 0.03e-9, kDear = 0.4e-9;  // seconds a byte, as measured

/// Messages of a stage, on a clock of the test's own.
struct Stores {
  /// One message, stored at this price; ordinary stores at `ordinary`, streamed ones at kCheap. Was it streamed?
  bool message(double ordinary) {
    const bool streamed = choice.next(kBytes);
    const std::chrono::duration<double> took((streamed ? kCheap : ordinary) * kBytes);
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

TEST(StoreChoice, IsOrdinaryWhereThatIsCheapAndLooksAtTheClockRarely) {
  Stores stores;
  EXPECT_EQ(stores.streamed(800, kCheap), 0);
  EXPECT_EQ(stores.timed, 100);
}

TEST(StoreChoice, StreamsAfterThreeDearMessages) {
  Stores stores;
  stores.streamed(7, kCheap);
  EXPECT_EQ(stores.streamed(3, kDear), 0) << "the 8th is timed, and the two after it";
  EXPECT_TRUE(stores.message(kDear));
  EXPECT_EQ(stores.streamed(100, kDear), 100);
}

TEST(StoreChoice, ForgivesWhatAnInterruptTakes) {
  Stores stores;
  for (int i = 0; i < 20; ++i) {
    stores.streamed(7, kCheap);
    EXPECT_FALSE(stores.message(100 * kDear));
  }
  EXPECT_EQ(stores.streamed(50, kCheap), 0);
}

TEST(StoreChoice, AnInterruptedStreamDoesNotMakeOrdinaryStoresLookCheap) {
  Stores stores;
  stores.streamed(11, kDear);
  for (int i = 0; i < 100; ++i) {
    stores.choice.next(kBytes);
    stores.choice.took(stores.now, stores.now + 1ms, kBytes);
  }
  stores.now += 300ms;
  EXPECT_GT(stores.streamed(1000, kDear), 900);
}

/// Slots that were streamed to are cheap to store to once, wherever readers are: so a probe goes round all of them.
TEST(StoreChoice, ProbesNowAndThenAndGoesOnStreamingWhereOrdinaryStoresAreStillDear) {
  Stores stores;
  stores.streamed(11, kDear);
  stores.now += 300ms;
  const int slots = static_cast<int>(machine_constants().long_ring / kBytes);
  const int ordinary = 1000 - stores.streamed(1000, kDear);
  EXPECT_GT(ordinary, slots);
  EXPECT_LE(ordinary, slots + 10);
  EXPECT_EQ(stores.streamed(1000, kDear), 1000) << "the next probe comes later";
}

TEST(StoreChoice, IsOrdinaryAgainWhenTheReadersHaveComeNear) {
  Stores stores;
  stores.streamed(11, kDear);
  stores.now += 300ms;
  stores.streamed(200, kCheap);
  EXPECT_EQ(stores.streamed(1000, kCheap), 0);
  EXPECT_GT(stores.streamed(1000, kDear), 900) << "and streamed when they have gone";
}

}  // namespace
}  // namespace tutti::exec
