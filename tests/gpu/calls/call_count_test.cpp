// How many calls a rank has planned, enqueued and ended: for these, buffers wait that peers read in place.
#include "exec/gpu/call_count.hpp"

#include <gtest/gtest.h>

namespace tutti::exec::gpu {
namespace {

TEST(CallCount, APlannedCallCountsUntilItIsEnqueuedOrCaptured) {
  const HostRecord record;
  const std::atomic<uint32_t> failed{0};
  CallCount calls(record, failed);
  EXPECT_EQ(calls.planned(), 0U);
  calls.plan();
  EXPECT_EQ(calls.planned(), 1U);
  EXPECT_EQ(calls.enqueued(), 0U);
  calls.add();
  EXPECT_EQ(calls.planned(), 1U);
  EXPECT_EQ(calls.enqueued(), 1U);
  calls.plan();
  EXPECT_EQ(calls.planned(), 2U);
  calls.end_plan();
  EXPECT_EQ(calls.planned(), 1U);
}

}  // namespace
}  // namespace tutti::exec::gpu
