// Invalid handles: destroyed ones, and memory that never was one.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

TEST(Handle, OfAStreamMayBeUsedWhileAnotherThreadDestroysIt) {
  for (int i = 0; i < 20; ++i) {
    tuttiStream_t stream = nullptr;
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
    std::atomic<int> used{0};
    std::atomic<bool> wrong{false};
    const auto use_until_gone = [&](auto&& call) {
      tuttiResult_t result = tuttiSuccess;
      while (result == tuttiSuccess) {
        result = call();
        ++used;
        used.notify_one();
      }
      wrong = wrong || result != tuttiInvalidUsage || std::strcmp(tuttiGetLastError(), "the stream was destroyed") != 0;
    };
    std::vector<std::jthread> users;
    users.emplace_back([&] { use_until_gone([&] { return tuttiStreamSynchronize(stream); }); });
    users.emplace_back([&] { use_until_gone([&] { return tuttiBarrier(comm, stream); }); });
    for (int seen = used; seen < 10; seen = used) used.wait(seen);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiInvalidUsage);
    users.clear();
    EXPECT_FALSE(wrong);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  }
}

TEST(Handle, OfAStreamIsDestroyedByOneOfTwoThreadsThatTry) {
  for (int i = 0; i < 50; ++i) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    std::array<tuttiResult_t, 2> results{};
    std::jthread other([&] { results[1] = tuttiStreamDestroy(stream); });
    results[0] = tuttiStreamDestroy(stream);
    other.join();
    EXPECT_EQ(results[0] == tuttiSuccess, results[1] == tuttiInvalidUsage);
    EXPECT_EQ(results[1] == tuttiSuccess, results[0] == tuttiInvalidUsage);
  }
}

/// Nothing of a destroyed communicator is kept for ever, beyond that the last ones are recognised.
TEST(Handle, OfDestroyedCommunicatorsTakesBoundedMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  constexpr int kFirst = 500, kAll = 10000;
  const auto held = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  size_t before = 0;
  for (int i = 0; i < kAll; ++i) {
    if (i == kFirst) before = held();
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess) << tuttiGetLastError();
    ASSERT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  }
  EXPECT_LT(held(), before + (size_t{64} << 10)) << "bytes after " << kFirst << ": " << before;
}

/// A program may make any number of streams, and a stale handle is recognised for long.
TEST(Handle, OfADestroyedStreamIsUsedAgainOnlyAfterManyOthers) {
  std::set<tuttiStream_t> different;
  tuttiStream_t first = nullptr;
  for (int i = 0; i < 3000; ++i) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    ASSERT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    if (i == 0) first = stream;
    different.insert(stream);
    if (i < 1000) {
      ASSERT_EQ(tuttiStreamSynchronize(first), tuttiInvalidUsage);
    }
  }
  EXPECT_LE(different.size(), 1100U);
}

/// Memory that never was a handle, and handles of another kind.
TEST(Handle, OverwrittenOrUninitialisedIsAnInvalidArgument) {
  tuttiStream_t stream = nullptr;
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  const auto refused = [](tuttiResult_t result, const std::string& words) {
    EXPECT_EQ(result, tuttiInvalidArgument);
    const std::string text = tuttiGetLastError();
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_EQ(text.find("fork"), std::string::npos) << text;
  };
  for (const int byte : {0x00, 0x01, 0x77, 0xff}) {
    std::array<uint64_t, 64> memory;
    std::memset(memory.data(), byte, sizeof memory);
    auto* const no_comm = reinterpret_cast<tuttiComm_t>(memory.data());
    auto* const no_stream = reinterpret_cast<tuttiStream_t>(memory.data());
    int ranks = 0;
    refused(tuttiCommCount(no_comm, &ranks), "not the handle of a communicator");
    refused(tuttiCommAbort(no_comm), "not the handle of a communicator");
    refused(tuttiCommDestroy(no_comm), "not the handle of a communicator");
    refused(tuttiBarrier(no_comm, nullptr), "not the handle of a communicator");
    refused(tuttiStreamSynchronize(no_stream), "not the handle of a stream");
    refused(tuttiStreamDestroy(no_stream), "not the handle of a stream");
    refused(tuttiBarrier(comm, no_stream), "not the handle of a stream");
  }
  for (const uintptr_t value : {uintptr_t{0x1234}, uintptr_t{0x7777777777777778}, ~uintptr_t{0}}) {  // no addresses
    auto* const no_comm = reinterpret_cast<tuttiComm_t>(value);
    auto* const no_stream = reinterpret_cast<tuttiStream_t>(value);
    refused(tuttiBarrier(no_comm, nullptr), "not the handle of a communicator");
    refused(tuttiCommDestroy(no_comm), "not the handle of a communicator");
    refused(tuttiBarrier(comm, no_stream), "not the handle of a stream");
    refused(tuttiStreamDestroy(no_stream), "not the handle of a stream");
    refused(tuttiEventDestroy(reinterpret_cast<tuttiEvent_t>(value)), "not the handle of an event");
  }
  refused(tuttiBarrier(reinterpret_cast<tuttiComm_t>(stream), nullptr), "not the handle of a communicator");
  refused(tuttiStreamSynchronize(reinterpret_cast<tuttiStream_t>(comm)), "not the handle of a stream");
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::fault
