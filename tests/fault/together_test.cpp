// Many things at the same time: communicators, threads, streams, groups, and slow readers.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "fault/threads.hpp"
#include "support/scoped_env.hpp"

namespace tutti::fault {
namespace {

TEST(Together, OneThreadDrivesAllRanks) {
  constexpr int n = 4;
  std::vector<tuttiComm_t> comms(n);
  ASSERT_EQ(tuttiCommInitAll(comms.data(), n), tuttiSuccess);
  for (const size_t count : {size_t{1}, size_t{100}, size_t{300000}}) {
    std::vector<std::vector<int>> in(n, std::vector<int>(count)), out(n, std::vector<int>(count, -1));
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (size_t r = 0; r < n; ++r) {
      std::iota(in[r].begin(), in[r].end(), static_cast<int>(r));
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess) << "groups nest";
      EXPECT_EQ(tuttiAllReduce(in[r].data(), out[r].data(), count, tuttiInt32, tuttiSum, comms[r], nullptr),
                tuttiSuccess);
      EXPECT_EQ(tuttiBroadcast(out[r].data(), out[r].data(), count, tuttiInt32, 2, comms[r], nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
      EXPECT_EQ(out[r][0], -1) << "an inner end runs nothing";
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[r][i], static_cast<int>(i) * n + 6);
    }
  }
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
}

TEST(Together, OneThreadSplitsForAllRanks) {
  constexpr int n = 5;
  std::vector<tuttiComm_t> comms(n), parts(n);
  ASSERT_EQ(tuttiCommInitAll(comms.data(), n), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (size_t r = 0; r < n; ++r) {  // 0 and 2; 1 and 3, in reverse order; not 4
    const int colour = r == 4 ? TUTTI_NO_COLOUR : static_cast<int>(r % 2);
    EXPECT_EQ(tuttiCommSplit(comms[r], colour, -static_cast<int>(r), &parts[r]), tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(parts[4], nullptr);
  for (size_t r = 0; r < 4; ++r) {
    int rank = -1, ranks = -1;
    EXPECT_EQ(tuttiCommUserRank(parts[r], &rank), tuttiSuccess);
    EXPECT_EQ(tuttiCommCount(parts[r], &ranks), tuttiSuccess);
    EXPECT_EQ(ranks, 2);
    EXPECT_EQ(rank, r < 2 ? 1 : 0) << "ordered by key";
  }
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(tuttiCommDestroy(parts[r]), tuttiSuccess);
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Together, CommunicatorsOfTheSameRanksAreIndependent) {
  with_ranks(3, [](int, tuttiComm_t comm) {
    tuttiComm_t second = nullptr, third = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &second), tuttiSuccess) << tuttiGetLastError();
    ASSERT_EQ(tuttiCommSplit(comm, 7, 0, &third), tuttiSuccess);
    std::vector<std::thread> threads;
    for (tuttiComm_t mine : {comm, second, third}) {
      threads.emplace_back([mine] {
        for (int i = 0; i < 60; ++i) expect_usable(mine, i % 7 == 0 ? 100000 : static_cast<size_t>(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(tuttiCommDestroy(third), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(second), tuttiSuccess);
  });
}

TEST(Together, AStreamRunsItsCallsInOrder) {
  with_ranks(3, [](int, tuttiComm_t comm) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    std::vector<int64_t> data(1000, 1);
    for (int i = 0; i < 20; ++i) {  // each needs the result of the one before
      ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiInt64, tuttiSum, comm, stream),
                tuttiSuccess);
    }
    ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(data, std::vector<int64_t>(1000, 3486784401));  // 3^20
    ASSERT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

/// Barriers are interchangeable, so any order of them is correct; but one must not wait for another that is behind it
/// on the same stream.
TEST(Together, ThreadsMayShareStreams) {
  with_ranks(2, [](int, tuttiComm_t comm) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

TEST(Together, AGroupMayUseSeveralStreams) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    tuttiStream_t a = nullptr, b = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&a), tuttiSuccess);
    ASSERT_EQ(tuttiStreamCreate(&b), tuttiSuccess);
    std::vector<int> in(5000, rank), out(5000, -1), sum(5000, -1);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(tuttiSend(in.data(), in.size(), tuttiInt32, 1 - rank, comm, i % 2 == 0 ? a : b), tuttiSuccess);
      EXPECT_EQ(tuttiRecv(out.data(), out.size(), tuttiInt32, 1 - rank, comm, i % 2 == 0 ? b : a), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(out.data(), sum.data(), out.size(), tuttiInt32, tuttiSum, comm, b), tuttiSuccess);
    }
    EXPECT_EQ(tuttiStreamDestroy(a), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(tuttiStreamDestroy(b), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(out, std::vector<int>(5000, 1 - rank));
    EXPECT_EQ(sum, std::vector<int>(5000, 1));
  });
}

/// Rank 0 only sends and runs ahead as far as links and staging memory allow; lengths around every threshold, and so
/// many of them that staging memory is divided again and again.
TEST(Together, AReaderMayBeSlow) {
  const test::ScopedEnv arena("TUTTI_ARENA", "64K"), message("TUTTI_MESSAGE", "2K");
  std::atomic<bool> ahead{false};
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    if (rank == 1) ahead.wait(false);
    for (size_t i = 0; i < 400; ++i) {
      const size_t lengths[] = {0, 1, 40, 41, 127 + i, 2048, 8191, 8192, 30000 + 64 * i};
      const size_t length = lengths[i % std::size(lengths)];
      std::vector<unsigned char> data(length, static_cast<unsigned char>(rank == 0 ? i : 255));
      const auto make = [&] {
        if (i % 3 != 0) return tuttiBroadcast(data.data(), data.data(), length, tuttiUint8, 0, comm, nullptr);
        if (rank == 0) return tuttiSend(data.data(), length, tuttiUint8, 1, comm, nullptr);
        return tuttiRecv(data.data(), length, tuttiUint8, 0, comm, nullptr);
      };
      ASSERT_EQ(make(), tuttiSuccess) << i << ": " << tuttiGetLastError();
      ASSERT_EQ(data, std::vector<unsigned char>(length, static_cast<unsigned char>(i))) << i;
      if (rank == 0 && i == 3) {
        ahead = true;
        ahead.notify_all();
      }
    }
  });
}

}  // namespace
}  // namespace tutti::fault
