// The two words by which the owner of a part of a window and one that uses it exclude each other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "rma/own_part.hpp"

namespace tutti::rma {
namespace {

TEST(OwnPart, IsClosedOnlyWhenUsesThatHaveBegunHaveEnded) {
  uint64_t word = 0;
  const auto part = OwnPart::make({"a communicator", 0, 1}, &word, sizeof word, 2);
  std::optional<Use> use(part->from(1));
  ASSERT_TRUE(use->allowed());
  std::atomic<bool> closed{false};
  std::jthread owner([&] {
    EXPECT_TRUE(part->close());
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // long enough for a close() that does not wait
  EXPECT_FALSE(closed) << "rank 1 still uses the part";
  use.reset();
  owner.join();
  EXPECT_TRUE(closed);
  EXPECT_FALSE(Use(part->from(1)).allowed()) << "it is closed";
}

TEST(OwnPart, IsFoundByItsNameWhileSomebodyHoldsIt) {
  uint64_t word = 0;
  auto part = OwnPart::make({"a communicator", 1, 7}, &word, sizeof word, 2);
  EXPECT_EQ(OwnPart::find({"a communicator", 1, 7}), part);
  EXPECT_EQ(OwnPart::find({"a communicator", 0, 7}), nullptr);
  EXPECT_EQ(OwnPart::find({"another one", 1, 7}), nullptr);
  part.reset();
  EXPECT_EQ(OwnPart::find({"a communicator", 1, 7}), nullptr);
}

}  // namespace
}  // namespace tutti::rma
