// The C interface between threads: every collective, in and out of place, sizes around the edges of chunks and
// windows.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti {
namespace {

/// Element i of rank r's contribution.
int64_t value(int rank, size_t i) { return static_cast<int64_t>(i * 31 + 7) * (rank + 1); }
int64_t sum(int n, size_t i) {
  int64_t total = 0;
  for (int r = 0; r < n; ++r) total += value(r, i);
  return total;
}

std::vector<int64_t> contribution(int rank, size_t count) {
  std::vector<int64_t> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

class Collectives : public testing::TestWithParam<int> {};
const std::vector<size_t> kCounts = {0, 1, 3, 17, 1000, 100003};

TEST_P(Collectives, AllReduceSums) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (const size_t count : kCounts) {
      const auto in = contribution(rank, count);
      std::vector<int64_t> out(count, -1);
      ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiInt64, tuttiSum, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError();
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], sum(n, i)) << "rank " << rank << " count " << count;
      auto both = contribution(rank, count);
      ASSERT_EQ(tuttiAllReduce(both.data(), both.data(), count, tuttiInt64, tuttiSum, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(both, out);
    }
  });
}

TEST_P(Collectives, AllGatherAndAllToAllMoveEveryBlock) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (const size_t count : kCounts) {
      const auto in = contribution(rank, count * static_cast<size_t>(n));
      std::vector<int64_t> out(in.size(), -1);
      ASSERT_EQ(tuttiAllGather(in.data(), out.data(), count, tuttiInt64, comm, nullptr), tuttiSuccess);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], value(static_cast<int>(i / count), i % count));
      ASSERT_EQ(tuttiAllToAll(in.data(), out.data(), count, tuttiInt64, comm, nullptr), tuttiSuccess);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], value(static_cast<int>(i / count), static_cast<size_t>(rank) * count + i % count));
      }
    }
  });
}

TEST_P(Collectives, RootedOnesServeEveryRoot) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (const size_t count : kCounts) {
      for (int root = 0; root < n; ++root) {
        const auto in = contribution(rank, count * static_cast<size_t>(n));
        std::vector<int64_t> out(in.size(), -1);
        ASSERT_EQ(tuttiBroadcast(in.data(), out.data(), count, tuttiInt64, root, comm, nullptr), tuttiSuccess);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], value(root, i));
        ASSERT_EQ(tuttiGather(in.data(), out.data(), count, tuttiInt64, root, comm, nullptr), tuttiSuccess);
        for (size_t i = 0; rank == root && i < out.size(); ++i) {
          ASSERT_EQ(out[i], value(static_cast<int>(i / count), i % count));
        }
        ASSERT_EQ(tuttiScatter(in.data(), out.data(), count, tuttiInt64, root, comm, nullptr), tuttiSuccess);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], value(root, static_cast<size_t>(rank) * count + i));
        ASSERT_EQ(tuttiReduce(in.data(), out.data(), count, tuttiInt64, tuttiSum, root, comm, nullptr), tuttiSuccess);
        for (size_t i = 0; rank == root && i < count; ++i) ASSERT_EQ(out[i], sum(n, i));
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsBlock) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (const size_t count : kCounts) {
      const auto in = contribution(rank, count * static_cast<size_t>(n));
      std::vector<int64_t> out(count, -1);
      ASSERT_EQ(tuttiReduceScatter(in.data(), out.data(), count, tuttiInt64, tuttiSum, comm, nullptr), tuttiSuccess);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], sum(n, static_cast<size_t>(rank) * count + i));
      ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    }
  });
}

TEST_P(Collectives, AGroupExchangesWithBothNeighbours) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    const int next = (rank + 1) % n, prev = (rank + n - 1) % n;
    for (const size_t count : kCounts) {
      const auto in = contribution(rank, count);
      std::vector<int64_t> left(count, -1), right(count, -1);
      tuttiGroupStart();
      ASSERT_EQ(tuttiSend(in.data(), count, tuttiInt64, next, comm, nullptr), tuttiSuccess) << tuttiGetLastError();
      ASSERT_EQ(tuttiSend(in.data(), count, tuttiInt64, prev, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiRecv(left.data(), count, tuttiInt64, prev, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiRecv(right.data(), count, tuttiInt64, next, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(left[i], value(prev, i)) << count;
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(right[i], value(next, i));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace tutti
