// Unusual uses of calls on device memory: each is right, or refused with a reason.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 1000;

std::vector<float> repeated(float value, size_t count = kCount) { return std::vector<float>(count, value); }

/// Two ranks on device 0, with buffers of kCount floats that outlive the communicator.
class OddUses : public testing::Test {
 protected:
  struct Own {
    GpuBuffer in{kCount * 4}, out{kCount * 4};
    GpuStream stream;
    tuttiResult_t all_reduce(tuttiComm_t comm, size_t count = kCount) const {
      return tuttiAllReduce(in.get(), out.get(), count, tuttiFloat32, tuttiSum, comm, stream.handle());
    }
    void expect(float value) const {
      stream.synchronize();
      EXPECT_EQ(out.floats(kCount), repeated(value));
    }
  };
  OddUses() {
    use_gpu(0);
    for (auto& own : owns_) own = std::make_unique<Own>();
    for (auto& own : owns_) own->in.set(repeated(1));
  }
  void each_rank(const std::function<void(int rank, tuttiComm_t comm, Own& own)>& body,
                 tuttiResult_t at_the_end = tuttiSuccess) {
    with_ranks(
        2,
        [&](int rank, tuttiComm_t comm) {
          use_gpu(0);
          body(rank, comm, *owns_[static_cast<size_t>(rank)]);
        },
        at_the_end);
  }

  /// Until both ranks are here. A captured call's program is written on a stream of the library's, which may share a
  /// hardware queue with a kernel that waits for this very rank, since the ranks share a GPU.
  void meet() { both_.arrive_and_wait(); }

  std::array<std::unique_ptr<Own>, 2> owns_;
  std::barrier<> both_{2};
};

TEST_F(OddUses, NoElements) {
  each_rank([&](int, tuttiComm_t comm, Own& own) {
    EXPECT_EQ(own.all_reduce(comm, 0), tuttiSuccess) << tuttiGetLastError();
    const Graph graph(own.stream, [&] { EXPECT_EQ(own.all_reduce(comm, 0), tuttiSuccess) << tuttiGetLastError(); });
    meet();
    graph.launch(own.stream);
    EXPECT_EQ(tuttiAllReduce(nullptr, nullptr, 0, tuttiFloat32, tuttiSum, comm, own.stream.handle()), tuttiSuccess)
        << tuttiGetLastError();
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
  });
}

TEST_F(OddUses, MoreElementsThanNumbersCanCount) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    for (const size_t count : {SIZE_MAX, SIZE_MAX / 4 + 1, (size_t{1} << 62) + 8, size_t{1} << 61}) {
      EXPECT_EQ(own.all_reduce(comm, count), tuttiInvalidArgument) << count;
      EXPECT_EQ(tuttiAllGather(own.in.get(), own.out.get(), count / 2, tuttiFloat32, comm, own.stream.handle()),
                tuttiInvalidArgument)
          << count;
    }
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
  });
}

TEST_F(OddUses, ARepeatedCallWhoseBufferWasReplaced) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
  });
  // One rank: freeing waits for the other's kernels.
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  Own& own = *owns_[0];
  std::optional<GpuBuffer> large(kCount * 4), small;
  unsigned char* const at = large->get();
  const auto call = [&] {
    return tuttiAllReduce(at, own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, own.stream.handle());
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(), tuttiSuccess);
  own.stream.synchronize();
  large.reset();
  EXPECT_EQ(call(), tuttiInvalidArgument);
  small.emplace(16);
  if (small->get() == at) {
    EXPECT_EQ(call(), tuttiInvalidArgument);
    expect_contains(tuttiGetLastError(), "its allocation ends after 16");
  }
  own.stream.destroy();
  EXPECT_EQ(tuttiAllReduce(own.in.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, own.stream.handle()),
            tuttiSuccess);  // the legacy stream
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
}

TEST_F(OddUses, ARepeatedCallWhoseStreamWasDestroyed) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  Own& own = *owns_[0];
  const tuttiStream_t gone = own.stream.handle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
  own.stream.destroy();
  EXPECT_EQ(tuttiAllReduce(own.in.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, gone),
            tuttiInvalidArgument);
  EXPECT_EQ(tuttiAllReduce(own.in.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError();
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
}

/// The legacy stream, each thread's own, and one that the legacy stream waits for.
TEST_F(OddUses, DefaultStreams) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  Own& own = *owns_[0];
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  for (const CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, blocking}) {
    own.out.set(repeated(0));
    EXPECT_EQ(tuttiAllReduce(own.in.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, comm,
                             reinterpret_cast<tuttiStream_t>(stream)),
              tuttiSuccess)
        << tuttiGetLastError();
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(own.out.floats(kCount), repeated(1));
  }
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  cuStreamDestroy(blocking);
}

TEST_F(OddUses, OverlappingBuffers) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    EXPECT_EQ(
        tuttiAllReduce(own.in.get(), own.in.get() + 4, kCount - 1, tuttiFloat32, tuttiSum, comm, own.stream.handle()),
        tuttiInvalidArgument);
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
  });
}

TEST_F(OddUses, PinnedMemoryOfTheHost) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    void* pinned = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&pinned, kCount * 4, 0), CUDA_SUCCESS);
    auto* const floats = static_cast<float*>(pinned);
    std::fill_n(floats, kCount, 1.0F);
    // With a stream of the device it is refused; without one it is memory of the host.
    EXPECT_EQ(tuttiAllReduce(pinned, own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, own.stream.handle()),
              tuttiInvalidArgument);
    EXPECT_EQ(tuttiAllReduce(pinned, pinned, kCount, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError();
    EXPECT_EQ(floats[kCount - 1], 2);
  });
}

TEST_F(OddUses, AThreadThatUsesAnotherDeviceOrNone) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  each_rank([](int, tuttiComm_t comm, Own& own) {
    use_gpu(1);
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess) << tuttiGetLastError();
    CUcontext popped = nullptr;
    cuCtxPopCurrent(&popped);
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess) << tuttiGetLastError();
    CUcontext now = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&now), CUDA_SUCCESS);
    EXPECT_EQ(now, nullptr) << "the call changed the thread's device";
    use_gpu(0);
    own.expect(2);
  });
}

TEST_F(OddUses, AGroupOfCallsOnTheHostAndOnTheDevice) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    std::vector<float> in(10, 1), out(10);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 10, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiBroadcast(own.out.get(), own.out.get(), kCount, tuttiFloat32, 1, comm, own.stream.handle()),
              tuttiSuccess);
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(out, std::vector<float>(10, 2));
    own.expect(2);
  });
}

TEST_F(OddUses, TwoCommunicatorsOnOneStream) {
  tuttiComm_t others[2];
  ASSERT_EQ(tuttiCommInitAll(others, 2), tuttiSuccess);
  each_rank([&](int rank, tuttiComm_t comm, Own& own) {
    tuttiComm_t const other = others[rank];
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(own.all_reduce(i % 2 == 0 ? comm : other), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(own.out.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, i % 3 == 0 ? comm : other,
                               own.stream.handle()),
                tuttiSuccess);
    }
    own.expect(4);
    EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess) << tuttiGetLastError();
  });
}

TEST_F(OddUses, ManyCommunicators) {
  constexpr int kMany = 12;
  std::vector<std::array<tuttiComm_t, 2>> all(kMany);
  for (auto& comms : all) ASSERT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess) << tuttiGetLastError();
  run_ranks(2, [&](int rank) {
    use_gpu(0);
    Own& own = *owns_[static_cast<size_t>(rank)];
    for (int turn = 0; turn < 2; ++turn) {
      for (auto& comms : all) EXPECT_EQ(own.all_reduce(comms[static_cast<size_t>(rank)]), tuttiSuccess);
    }
    own.expect(2);
    for (auto& comms : all) EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess);
  });
}

TEST_F(OddUses, DestroyedWhileCallsAreUnderWay) {
  each_rank([](int, tuttiComm_t comm, Own& own) {
    for (int i = 0; i < 30; ++i) EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
  });
  for (auto& own : owns_) own->expect(2);
}

TEST_F(OddUses, AGraphOfACommunicatorThatWasAborted) {
  each_rank(
      [&](int, tuttiComm_t comm, Own& own) {
        const Graph graph(own.stream, [&] { EXPECT_EQ(own.all_reduce(comm), tuttiSuccess); });
        meet();
        graph.launch(own.stream);
        own.expect(2);
        EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
        for (int i = 0; i < 3; ++i) graph.launch(own.stream);
        own.stream.synchronize();
        EXPECT_EQ(own.all_reduce(comm), tuttiAborted);
      },
      tuttiAborted);
}

/// Also of another thread of the process, which forbids calls that could wait or allocate in all threads.
TEST_F(OddUses, AGlobalCapture) {
  each_rank([&](int, tuttiComm_t comm, Own& own) {
    ASSERT_EQ(cuStreamBeginCapture(own.stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(own.all_reduce(comm, 17), tuttiSuccess) << tuttiGetLastError();
    CUgraph graph = nullptr;
    CUgraphExec runnable = nullptr;
    ASSERT_EQ(cuStreamEndCapture(own.stream.get(), &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphInstantiate(&runnable, graph, 0), CUDA_SUCCESS);
    meet();
    EXPECT_EQ(cuGraphLaunch(runnable, own.stream.get()), CUDA_SUCCESS);
    own.expect(2);
    cuGraphExecDestroy(runnable);
    cuGraphDestroy(graph);
  });
}

/// Ranks split and leave while a stream of theirs is captured: neither is part of the graph, which is whole.
TEST_F(OddUses, CallsOfTheControlPlaneWithinACapture) {
  each_rank([&](int rank, tuttiComm_t comm, Own& own) {
    tuttiComm_t part = nullptr;
    const Graph graph(own.stream, [&] {
      EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
      EXPECT_EQ(tuttiCommSplit(comm, 0, rank, &part), tuttiSuccess) << tuttiGetLastError();
      EXPECT_EQ(own.all_reduce(part), tuttiSuccess) << tuttiGetLastError();
      EXPECT_EQ(tuttiBarrier(part, own.stream.handle()), tuttiSuccess) << tuttiGetLastError();
    });
    meet();
    for (int i = 0; i < 3; ++i) graph.launch(own.stream);
    own.expect(2);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess) << tuttiGetLastError();
  });
}

TEST_F(OddUses, AChildOfFork) {
  each_rank([](int rank, tuttiComm_t comm, Own& own) {
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
    if (rank == 0) {
      const pid_t child = fork();
      if (child == 0) {
        const tuttiResult_t result = own.all_reduce(comm);
        _exit(result == tuttiSuccess ? 1 : 42);
      }
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 42);
    }
    EXPECT_EQ(own.all_reduce(comm), tuttiSuccess);
    own.expect(2);
  });
}

/// The program resets its device, which takes memory and streams from the communicator.
TEST(OddUsesOfAContext, ADeviceThatIsReset) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  use_gpu(1);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  {
    const GpuBuffer buffer(64);
    const GpuStream stream;
    EXPECT_EQ(tuttiAllReduce(buffer.get(), buffer.get(), 8, tuttiFloat32, tuttiSum, comm, stream.handle()),
              tuttiSuccess);
    stream.synchronize();
    ASSERT_EQ(cuDevicePrimaryCtxReset(1), CUDA_SUCCESS);
    EXPECT_NE(tuttiAllReduce(buffer.get(), buffer.get(), 8, tuttiFloat32, tuttiSum, comm, stream.handle()),
              tuttiSuccess);
  }
  tuttiCommDestroy(comm);
}

}  // namespace
}  // namespace tutti
