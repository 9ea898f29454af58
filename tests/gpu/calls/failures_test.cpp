// Calls on device memory that cannot end well: every rank's stream ends, and the communicator says why.
#include <atomic>
#include <chrono>
#include <thread>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kBytes = 1 << 16;

struct DeviceRank {
  GpuBuffer in{kBytes}, out{kBytes};
  GpuStream stream;
  tuttiResult_t all_reduce(tuttiComm_t comm, size_t count) const {
    return tuttiAllReduce(in.get(), out.get(), count, tuttiFloat32, tuttiSum, comm, stream.handle());
  }
};

void each_rank(int ranks, tuttiResult_t at_the_end, const std::function<void(int, tuttiComm_t, DeviceRank&)>& body) {
  use_gpu(0);
  with_ranks(
      ranks,
      [&](int rank, tuttiComm_t comm) {
        use_gpu(0);
        DeviceRank mine;
        meet();
        body(rank, comm, mine);
      },
      at_the_end);
}

TEST(DeviceFailures, AMismatchNamesBothCalls) {
  each_rank(2, tuttiMismatch, [](int rank, tuttiComm_t comm, DeviceRank& mine) {
    EXPECT_EQ(mine.all_reduce(comm, rank == 0 ? 8 : 16), tuttiSuccess);
    mine.stream.synchronize();
    const std::string text = failure_of(comm, tuttiMismatch);
    expect_contains(text, "all_reduce(count=8, f32, sum)");
    expect_contains(text, "all_reduce(count=16, f32, sum)");
    EXPECT_EQ(mine.all_reduce(comm, 8), tuttiMismatch);
  });
}

/// A kernel that has seen a wrong message must not wait for the message of the rank that has not called. (Of replays,
/// since call boards show the mismatch of calls.)
TEST(DeviceFailures, AMismatchIsToldBeforeTheLastRankCalls) {
  each_rank(3, tuttiMismatch, [](int rank, tuttiComm_t comm, DeviceRank& mine) {
    const Graph graph(mine.stream, [&] { EXPECT_EQ(mine.all_reduce(comm, rank == 0 ? 8 : 16), tuttiSuccess); });
    meet();
    if (rank != 2) graph.launch(mine.stream);
    failure_of(comm, tuttiMismatch);
    mine.stream.synchronize();
  });
}

/// As many replays on each rank, of graphs that differ: no call board shows that, and the kernels report it just before
/// the ranks leave.
TEST(DeviceFailures, AMismatchInTheLastReplayIsToldByDestroy) {
  for (int turn = 0; turn < 5; ++turn) {
    each_rank(2, tuttiMismatch, [](int rank, tuttiComm_t comm, DeviceRank& mine) {
      const Graph graphs[] = {{mine.stream, [&] { EXPECT_EQ(mine.all_reduce(comm, 8), tuttiSuccess); }},
                              {mine.stream, [&] { EXPECT_EQ(mine.all_reduce(comm, 16), tuttiSuccess); }}};
      meet();
      graphs[rank].launch(mine.stream);
      mine.stream.synchronize();
    });
  }
}

/// The second call copies its lane's state while it finds out that it must not: a race, of which no result is used.
TEST(DeviceFailures, TwoCallsAtOnceAreNamed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer reports the race that this test makes";
#endif
  each_rank(2, tuttiInvalidUsage, [](int rank, tuttiComm_t comm, DeviceRank& mine) {
    if (rank == 0) {
      const GpuStream other;
      const Graph graph(mine.stream, [&] { EXPECT_EQ(mine.all_reduce(comm, 8), tuttiSuccess); });
      graph.launch(mine.stream);  // waits for rank 1; nothing orders the next call after it
      EXPECT_EQ(tuttiBroadcast(mine.in.get(), mine.out.get(), 9, tuttiFloat32, 0, comm, other.handle()), tuttiSuccess);
      mine.stream.synchronize();
      other.synchronize();
    }
    const std::string text = failure_of(comm, tuttiInvalidUsage);
    expect_contains(text, "two calls of the communicator ran on the device at the same time");
    expect_contains(text, "all_reduce(count=8, f32, sum)");
    expect_contains(text, "broadcast(count=9, f32, root=0)");
  });
}

TEST(DeviceFailures, AbortEndsAWaitingKernel) {
  each_rank(2, tuttiAborted, [](int rank, tuttiComm_t comm, DeviceRank& mine) {
    if (rank == 0) {
      EXPECT_EQ(mine.all_reduce(comm, 8), tuttiSuccess);  // rank 1 never comes
      const auto begin = std::chrono::steady_clock::now();
      std::thread([&] { EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess); }).join();
      mine.stream.synchronize();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(seconds.count(), kStreamsEndWithin);
    }
    failure_of(comm, tuttiAborted);
  });
}

/// A broadcast's root aborts when its message is out. The reader's call begins `later`: true if it does nothing.
bool does_nothing(std::chrono::milliseconds later) {
  const std::vector<float> poison(8, -1);
  std::vector<float> got(8);
  std::atomic<bool> released = false;
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    use_gpu(rank);
    tuttiComm_t comm = nullptr;
    EXPECT_EQ(tuttiCommInitRank(&comm, 2, id, rank), tuttiSuccess) << tuttiGetLastError();
    const DeviceRank mine;
    const CUdeviceptr out = reinterpret_cast<CUdeviceptr>(mine.out.get());
    EXPECT_EQ(cuMemcpyHtoDAsync(out, poison.data(), 32, mine.stream.get()), CUDA_SUCCESS);
    mine.stream.synchronize();
    meet();
    if (rank == 1) {
      const auto wait = [](void* flag) {
        while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
      };
      EXPECT_EQ(cuLaunchHostFunc(mine.stream.get(), wait, &released), CUDA_SUCCESS);
    }
    EXPECT_EQ(tuttiBroadcast(mine.in.get(), mine.out.get(), 8, tuttiFloat32, 0, comm, mine.stream.handle()),
              tuttiSuccess);
    meet();  // an abort before the reader has called would refuse its call
    if (rank == 0) {
      mine.stream.synchronize();
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    } else {
      failure_of(comm, tuttiAborted);
      std::this_thread::sleep_for(later);
      released = true;
      EXPECT_EQ(cuMemcpyDtoHAsync(got.data(), out, 32, mine.stream.get()), CUDA_SUCCESS);
      mine.stream.synchronize();
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiAborted);
  });
  return got == poison;
}

/// What a peer has published may be freed by then. Soon after the failure, not at once: so it is tried again, later.
TEST(DeviceFailures, ACallThatBeginsAfterAnAbortDoesNothing) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  using namespace std::chrono_literals;
  EXPECT_TRUE(does_nothing(30ms) || does_nothing(300ms) || does_nothing(3s));
}

TEST(DeviceFailures, AWaitThatIsTooLongNamesThePeerAndTheStep) {
  use_gpu(0);
  const std::array<tuttiComm_t, 2> comms = impatient_ranks();
  {
    const DeviceRank mine;
    EXPECT_EQ(mine.all_reduce(comms[0], 8), tuttiSuccess);
    mine.stream.synchronize();
    expect_contains(failure_of(comms[0], tuttiTimeout), "rank 0 waited");
    expect_contains(failure_of(comms[0], tuttiTimeout), "for rank 1 (a message) at lane 0, step");
  }
  for (tuttiComm_t comm : comms) tuttiCommDestroy(comm);
}

TEST(DeviceFailures, ARankThatLeavesEarlyIsAMismatch) {
  use_gpu(0);
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    use_gpu(0);
    if (rank == 0) {
      const DeviceRank mine;
      EXPECT_EQ(mine.all_reduce(comms[0], 8), tuttiSuccess);
      mine.stream.synchronize();
      expect_contains(failure_of(comms[0], tuttiMismatch), "rank 1 called destroy()");
    }
    tuttiCommDestroy(comms[rank]);
  });
}

}  // namespace
}  // namespace tutti
