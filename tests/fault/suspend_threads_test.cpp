// Communicators that are suspended, where ranks are threads of the test: what calls on streams, operators and other
// threads see of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "fault/resources.hpp"
#include "fault/threads.hpp"
#include "support/scoped_env.hpp"
#include "tutti/tutti.hpp"

namespace tutti::fault {
namespace {

TEST(SuspendThreads, WaitsForCallsOnStreams) {
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    constexpr size_t kCount = 500000;
    std::vector<std::vector<int>> data(8, std::vector<int>(kCount, rank));
    for (int again = 0; again < 3; ++again) {
      for (auto& one : data) {
        std::fill(one.begin(), one.end(), rank);
        ASSERT_EQ(tuttiAllReduce(one.data(), one.data(), kCount, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
      }
      ASSERT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << tuttiGetLastError();
      for (const auto& one : data) EXPECT_EQ(one, std::vector<int>(kCount, 3));
      EXPECT_EQ(tuttiAllReduce(data[0].data(), data[0].data(), 1, tuttiInt32, tuttiSum, comm, stream),
                tuttiInvalidUsage)
          << "at the call, not later";
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError();
      ASSERT_EQ(tuttiCommResume(comm), tuttiSuccess) << tuttiGetLastError();
    }
    expect_usable(comm);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

TEST(SuspendThreads, KeepsOperatorsCountersAndCallsOfLater) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    const float half = 0.5F;
    tuttiRedOp_t op = 0;
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&op, &half, tuttiFloat32, comm), tuttiSuccess);
    expect_usable(comm, 100000);
    tuttiTraffic before{sizeof before, 0}, after{sizeof after, 0};
    ASSERT_EQ(tuttiCommGetTraffic(comm, &before), tuttiSuccess);
    ASSERT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << tuttiGetLastError();
    ASSERT_EQ(tuttiCommGetTraffic(comm, &after), tuttiSuccess);
    EXPECT_GT(before.sent, 0U);
    EXPECT_EQ(after.sent, before.sent);
    tuttiCallInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
    EXPECT_STREQ(info.algorithm, "none");
    int number = -1;
    EXPECT_EQ(tuttiCommUserRank(comm, &number), tuttiSuccess);
    EXPECT_EQ(number, rank);
    ASSERT_EQ(tuttiCommResume(comm), tuttiSuccess) << tuttiGetLastError();
    float value = static_cast<float>(2 * rank + 2);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, comm, nullptr), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(value, 3.0F);
    expect_usable(comm, 100000);
    ASSERT_EQ(tuttiCommGetTraffic(comm, &after), tuttiSuccess);
    EXPECT_GE(after.sent, 2 * before.sent);
  });
}

/// What a group has collected before runs with the programs that there are then.
TEST(SuspendThreads, CollectedCallsOfAnotherThreadRunWhenItIsResumed) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    std::vector<int> data(1000, rank + 1);
    std::barrier<> step(2);
    std::thread other([&] {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiInt32, tuttiSum, comm, nullptr),
                tuttiSuccess);
      step.arrive_and_wait();
      step.arrive_and_wait();
      double seconds = -1;
      EXPECT_EQ(tuttiGroupEstimate(&seconds), tuttiSuccess) << tuttiGetLastError();
      step.arrive_and_wait();
      step.arrive_and_wait();
      EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    });
    step.arrive_and_wait();
    EXPECT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << tuttiGetLastError();
    step.arrive_and_wait();
    step.arrive_and_wait();
    EXPECT_EQ(tuttiCommResume(comm), tuttiSuccess) << tuttiGetLastError();
    step.arrive_and_wait();
    other.join();
    EXPECT_EQ(data, std::vector<int>(1000, 3));
  });
}

TEST(SuspendThreads, FreesTheMemoryOfThreadRanksInEveryCycle) {
  const test::ScopedEnv env("TUTTI_ARENA", "32M");
  constexpr size_t kMost = 2000000;
  std::vector<Resources> live, suspended;
  with_ranks(4, [&](int rank, tuttiComm_t comm) {
    std::vector<int> data(kMost);  // kept: what the allocator does with it is not what is measured
    const auto note = [&](std::vector<Resources>& in) {
      meet();
      if (rank == 0) in.push_back(resources_of_process());
      meet();
    };
    for (int cycle = 0; cycle < 20; ++cycle) {
      for (const size_t count : {size_t{1}, size_t{3000}, kMost}) {
        std::fill_n(data.begin(), count, rank);
        ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(std::count(data.begin(), data.begin() + static_cast<ptrdiff_t>(count), 6),
                  static_cast<ptrdiff_t>(count));
      }
      note(live);
      ASSERT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << tuttiGetLastError();
      note(suspended);
      ASSERT_EQ(tuttiCommResume(comm), tuttiSuccess) << tuttiGetLastError();
    }
  });
  // KiB. ThreadSanitizer grows by what it notes of threads; AddressSanitizer keeps what is freed, up to 256 MiB of it.
#if defined(__SANITIZE_THREAD__)
  constexpr int64_t kGrowth = 8000;
#elif defined(__SANITIZE_ADDRESS__)
  constexpr int64_t kGrowth = 256 << 10;
#else
  constexpr int64_t kGrowth = 1000;
#endif
  ASSERT_EQ(suspended.size(), 20U);
  for (size_t i = 5; i < live.size(); ++i) {
    EXPECT_EQ(live[i].descriptors, live[4].descriptors);
    EXPECT_EQ(suspended[i].descriptors, suspended[4].descriptors);
    EXPECT_LT(suspended[i].resident, live[i].resident);
    EXPECT_LT(suspended[i].resident, suspended[4].resident + kGrowth) << "cycle " << i;
  }
  RecordProperty("live", std::to_string(live.back().resident));
  RecordProperty("suspended", std::to_string(suspended.back().resident));
}

TEST(SuspendThreads, OneRankIsSuspendedAlone) {
  with_ranks(1, [](int, tuttiComm_t comm) {
    expect_usable(comm);
    ASSERT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << tuttiGetLastError();
    int value = 0;
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiInvalidUsage);
    ASSERT_EQ(tuttiCommResume(comm), tuttiSuccess) << tuttiGetLastError();
    expect_usable(comm);
    EXPECT_EQ(tuttiCommSuspend(comm), tuttiSuccess) << "and destroyed as it is";
  });
}

TEST(SuspendThreads, IsPartOfTheCppInterface) {
  auto comms = Communicator::all_local(2);
  run_ranks(2, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    comm.suspend();
    EXPECT_THROW(comm.barrier(), Error);
    EXPECT_THROW(comm.suspend(), Error);
    comm.resume();
    EXPECT_THROW(comm.resume(), Error);
    std::vector<int> data(100, rank);
    comm.all_reduce(data);
    EXPECT_EQ(data, std::vector<int>(100, 1));
    comm.close();
  });
}

TEST(SuspendThreads, ABadHandleIsRefused) {
  EXPECT_EQ(tuttiCommSuspend(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommResume(nullptr), tuttiInvalidArgument);
}

}  // namespace
}  // namespace tutti::fault
