// Thread ranks for tests of the C interface.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {

inline thread_local std::barrier<>* t_meeting = nullptr;
/// Within run_ranks(): returns when all ranks have come here. On GPUs, memory is allocated before: an
/// allocation may wait for kernels of the process, and they for this rank.
inline void meet() { t_meeting->arrive_and_wait(); }

/// Runs body(rank) on n threads.
inline void run_ranks(int n, const std::function<void(int)>& body) {
  std::barrier<> meeting(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      t_meeting = &meeting;
      body(rank);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// Runs body(rank, comm) on n thread ranks of one communicator, and expects `at_the_end` of destroying it.
inline void with_ranks(int n, const std::function<void(int, tuttiComm_t)>& body,
                       tuttiResult_t at_the_end = tuttiSuccess) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(n));
  ASSERT_EQ(tuttiCommInitAll(comms.data(), n), tuttiSuccess) << tuttiGetLastError();
  run_ranks(n, [&](int rank) {
    body(rank, comms[static_cast<size_t>(rank)]);
    EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), at_the_end)
        << "rank " << rank << ": " << tuttiGetLastError();
  });
}

}  // namespace tutti
