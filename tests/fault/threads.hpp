// Ranks that are threads of the test's process.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "support/thread_ranks.hpp"

namespace tutti::fault {

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
