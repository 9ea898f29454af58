// Ranks that are threads of the test itself.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::fault {

/// Runs `body(rank, comm)` on n threads and destroys the communicators, expecting `at_the_end` of it.
inline void with_ranks(int n, const std::function<void(int, tuttiComm_t)>& body,
                       tuttiResult_t at_the_end = tuttiSuccess) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(n));
  ASSERT_EQ(tuttiCommInitAll(comms.data(), n), tuttiSuccess) << tuttiGetLastError();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank, comm = comms[static_cast<size_t>(rank)]] {
      body(rank, comm);
      EXPECT_EQ(tuttiCommDestroy(comm), at_the_end) << "rank " << rank << ": " << tuttiGetLastError();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// An all-reduce of ones, checked.
inline void expect_usable(tuttiComm_t comm, size_t count = 1000) {
  int ranks = 0;
  ASSERT_EQ(tuttiCommCount(comm, &ranks), tuttiSuccess);
  const std::vector<int> in(count, 1);
  std::vector<int> out(count, -1);
  ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError();
  EXPECT_EQ(out, std::vector<int>(count, ranks));
}

}  // namespace tutti::fault
