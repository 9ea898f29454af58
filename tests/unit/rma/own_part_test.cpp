// The two words by which the owner of a part of a window and one that uses it exclude each other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "link/cma.hpp"
#include "link/mapped_memory.hpp"
#include "link/segment.hpp"
#include "rma/own_part.hpp"

namespace tutti::rma {
namespace {

TEST(OwnPart, IsClosedOnlyWhenUsesThatHaveBegunHaveEnded) {
  uint64_t word = 0;
  const auto part = OwnPart::make({"a communicator", 0, 1}, &word, sizeof word, {0, 0});
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
  auto part = OwnPart::make({"a communicator", 1, 7}, &word, sizeof word, {0, 0});
  EXPECT_EQ(OwnPart::find({"a communicator", 1, 7}), part);
  EXPECT_EQ(OwnPart::find({"a communicator", 0, 7}), nullptr);
  EXPECT_EQ(OwnPart::find({"another one", 1, 7}), nullptr);
  part.reset();
  EXPECT_EQ(OwnPart::find({"a communicator", 1, 7}), nullptr);
}

TEST(OwnPart, IsWrittenByCmaUntilItIsClosed) {
  uint64_t word = 0, other = 5;
  const auto part = OwnPart::make({"a communicator", 0, 1}, &word, sizeof word, {getpid(), 0});
  const auto put = [&] {
    return link::cma_write(getpid(), reinterpret_cast<const unsigned char*>(&other),
                           reinterpret_cast<unsigned char*>(part->part().memory), sizeof word, part->part().gate);
  };
  const int error = put();
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  ASSERT_EQ(error, 0);
  EXPECT_EQ(word, 5u);
  EXPECT_TRUE(part->close());
  other = 6;
  EXPECT_EQ(put(), EFAULT);
  EXPECT_EQ(word, 5u);
}

/// (A rank of a process that is stopped uses each part.)
TEST(OwnPart, KeepsPagesThatOtherDataOrAnotherOpenPartHas) {
  link::SharedMemory& shared = link::SharedMemory::of_this_process();
  const uint64_t page = link::page_bytes(), bytes = 16 * page;
  auto* const memory = static_cast<unsigned char*>(shared.allocate(bytes));
  if (shared.find(memory, bytes).id == 0) GTEST_SKIP() << "this system has no memory that other processes can map";
  const auto whole = OwnPart::make({"a communicator", 0, 1}, memory, bytes, {0, 0});
  const auto page_of_it = OwnPart::make({"a communicator", 0, 2}, memory + 15 * page, page, {0, 0});
  const auto word = OwnPart::make({"a communicator", 0, 3}, memory + 100, 8, {0, 0});
  const Use uses[] = {Use(whole->from(1)), Use(word->from(1))};
  memory[0] = 7;
  {
    const std::jthread first([&] { EXPECT_FALSE(whole->close()); }), second([&] { EXPECT_FALSE(word->close()); });
  }
  EXPECT_NE(shared.find(memory, bytes).id, 0u) << "peers of the part that is open have other pages";
  EXPECT_TRUE(page_of_it->close());
  EXPECT_TRUE(whole->close()) << "no other part is open";
  EXPECT_EQ(shared.find(memory, bytes).id, 0u);
  EXPECT_EQ(memory[0], 7);
  shared.release(memory);
}

TEST(OwnPart, SaysWhichOfItsBytesAStoppedRankMayStillWrite) {
  link::SharedMemory& shared = link::SharedMemory::of_this_process();
  const uint64_t page = link::page_bytes();
  auto* const memory = static_cast<unsigned char*>(shared.allocate(16 * page));
  if (shared.find(memory, 16 * page).id == 0) GTEST_SKIP() << "this system has no memory that other processes can map";
  const auto part = OwnPart::make({"a communicator", 0, 1}, memory + page - 8, 2 * page + 24, {0, 0, 0});
  const auto word = OwnPart::make({"a communicator", 0, 2}, memory + 8 * page, 8, {0, 0, 0});
  const Use uses[] = {Use(part->from(2)), Use(word->from(1))};
  {
    const std::jthread first([&] { EXPECT_FALSE(part->close()); }), second([&] { EXPECT_FALSE(word->close()); });
  }
  EXPECT_EQ(part->still_written().find(fmt::format("rank 2 may still write to the first 8 and the last 16 of the {} "
                                                   "bytes at {}: a copy there was under way in a process that",
                                                   2 * page + 24, static_cast<void*>(memory + page - 8))),
            0u)
      << part->still_written();
  EXPECT_EQ(word->still_written().find("rank 1 may still write to all 8 bytes at"), 0u) << word->still_written();
  shared.release(memory);
}

/// New pages would not help: it stores to those of this process.
TEST(OwnPart, IsNotClosedUnderAThreadOfThisProcess) {
  link::SharedMemory& shared = link::SharedMemory::of_this_process();
  const uint64_t bytes = 16 * link::page_bytes();
  auto* const mapped = static_cast<unsigned char*>(shared.allocate(bytes));
  std::vector<unsigned char> ordinary(bytes);
  const auto one = OwnPart::make({"a communicator", 0, 1}, mapped, bytes, {getpid(), getpid()});
  const auto other = OwnPart::make({"a communicator", 0, 2}, ordinary.data(), bytes, {getpid(), getpid()});
  {
    const Use uses[] = {Use(one->from(1)), Use(other->from(1))};
    const std::jthread first([&] { EXPECT_FALSE(one->close()); }), second([&] { EXPECT_FALSE(other->close()); });
  }
  for (const auto& part : {one, other}) {
    EXPECT_EQ(
        part->still_written().find(fmt::format("rank 1, of this process, may still write to all {} bytes at", bytes)),
        0u)
        << part->still_written();
    EXPECT_TRUE(part->close()) << "the use has ended";
  }
  shared.release(mapped);
}

/// (A rank that was stopped may look at it when it continues.)
TEST(OwnPart, ThatIsGoneIsClosedForThoseThatHaveItsSignalsMapped) {
  auto part = OwnPart::make({"a communicator", 0, 1}, nullptr, 0, {0, 0});
  auto exported = link::SharedMemory::of_this_process().export_region(part->part().signal_region);
  if (!exported.fd) GTEST_SKIP() << "this system has no memory that other processes can map";
  const auto mapped = link::Segment::map(std::move(exported.fd), {0, exported.bytes}, "rank 0");
  SignalLine& line = reinterpret_cast<SignalLine*>(mapped.base())[1];
  EXPECT_TRUE(Use(line).allowed());
  part.reset();
  EXPECT_FALSE(Use(line).allowed());
}

}  // namespace
}  // namespace tutti::rma
