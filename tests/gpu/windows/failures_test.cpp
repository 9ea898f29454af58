// Windows in memory of GPUs that cannot end well: mistakes lose nothing, every stream ends, and the communicator says
// why.
#include <atomic>
#include <csignal>
#include <thread>

#include "windows/gpu_job.hpp"

namespace tutti::test {
namespace {

/// A call that is refused, with this text.
void refused(tuttiResult_t result, tuttiResult_t expected, const std::string& part) {
  EXPECT_EQ(result, expected);
  expect_contains(tuttiGetLastError(), part);
}

TEST(GpuWindowMistakes, AreRefusedAtTheCall) {
  each_rank(
      [](const Member& me) {
        const Memory memory(me, 256);
        const GpuStream gpu_stream;
        const tuttiStream_t on = gpu_stream.handle();
        const Part part(me, 100);
        const int next = me.next();
        Bytes ordinary(64);
        const auto put = [&](const void* source, size_t bytes, int peer, size_t offset, tuttiStream_t stream) {
          return tuttiPut(source, bytes, peer, offset, part.window, stream);
        };
        refused(put(memory.at(), 8, next, 93, on), tuttiInvalidArgument, "8 bytes at offset 93 do not lie in rank ");
        refused(put(memory.at(), 8, next, SIZE_MAX, nullptr), tuttiInvalidArgument,
                "part, of 100 bytes, of the window of");
        refused(put(memory.at(), 8, me.ranks, 0, on), tuttiInvalidArgument, "there are ranks 0 to ");
        refused(put(nullptr, 8, next, 0, on), tuttiInvalidArgument, "the source is NULL");
        refused(put(memory.at(250), 8, next, 0, on), tuttiInvalidArgument, "the source has 8 bytes");
        refused(put(ordinary.data(), 8, next, 0, on), tuttiInvalidArgument, "pin it");
        refused(tuttiGet(ordinary.data(), 8, next, 0, part.window, on), tuttiInvalidArgument, "the target is ordinary");
        refused(tuttiSignal(next, 8, part.window, on), tuttiInvalidArgument, "there are signals 0 to 7");
        refused(tuttiWaitSignal(next, 0, 0, part.window, on), tuttiInvalidArgument, "the count is from 1");
        refused(tuttiAtomicAdd(1, nullptr, next, 4, part.window, on), tuttiInvalidArgument, "multiple of 8");
        refused(tuttiAtomicAdd(1, nullptr, next, 96, part.window, on), tuttiInvalidArgument, "8 bytes at offset 96");
        tuttiStream_t of_host = nullptr;
        OK(tuttiStreamCreate(&of_host));
        refused(put(memory.at(), 8, next, 0, of_host), tuttiInvalidArgument, "the stream is one of tuttiStreamCreate");
        OK(tuttiStreamDestroy(of_host));
        CUDA_OK(cuStreamBeginCapture(gpu_stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        refused(put(memory.at(), 8, next, 0, on), tuttiInvalidUsage, "cannot be captured in a graph");
        CUgraph graph = nullptr;
        CUDA_OK(cuStreamEndCapture(gpu_stream.get(), &graph));
        CUDA_OK(cuGraphDestroy(graph));
        EXPECT_TRUE(part.memory.all() == Bytes(100, 0xEE));
        me.meet();  // nothing is lost
        memory.set(0, Bytes(8, static_cast<unsigned char>(me.rank)));
        OK(tuttiPutSignal(memory.at(), 8, next, 92, 0, part.window, on));
        OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, on));
        gpu_stream.synchronize();
        EXPECT_TRUE(part.memory.get(92, 8) == Bytes(8, static_cast<unsigned char>(me.previous())));
        me.meet();
      },
      2);
}

TEST(GpuWindowMistakes, ACallWithoutAStreamWhileAnotherStreamIsCaptured) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs: streams of one would be each other's";
  each_rank(
      [](const Member& me) {
        const Part part(me, 64);
        CUstream blocking = nullptr;
        CUDA_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        CUDA_OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        refused(tuttiSignal(me.next(), 0, part.window, nullptr), tuttiInvalidUsage,
                "another stream of this process is being captured");
        CUgraph graph = nullptr;
        if (cuStreamEndCapture(blocking, &graph) == CUDA_SUCCESS) cuGraphDestroy(graph);  // or it was invalidated
        CUDA_OK(cuStreamDestroy(blocking));
        OK(tuttiSignal(me.next(), 0, part.window, nullptr));
      },
      2);
}

TEST(GpuWindowMistakes, OfOneRankAtARegistrationAreTheErrorOfAll) {
  each_rank(
      [](const Member& me) {
        const Memory memory(me, 64);
        Bytes ordinary(64);
        tuttiWindow_t window = nullptr;
        const auto attempt = [&](void* of_rank_1, const std::string& text, tuttiResult_t code) {
          refused(tuttiWindowRegister(me.comm, me.rank == 1 ? of_rank_1 : memory.at(), 64, &window), code, text);
          EXPECT_EQ(window, nullptr);
        };
        attempt(nullptr, "rank 1 cannot take part: the buffer is NULL", tuttiInvalidArgument);
        attempt(ordinary.data(), "rank 1's in memory of the host: a window has one kind of memory",
                tuttiInvalidArgument);
        attempt(memory.at(8), "rank 1 cannot take part: ", tuttiInvalidArgument);  // beyond its allocation
        CUdeviceptr pool = 0;
        const GpuStream stream;
        CUDA_OK(cuMemAllocAsync(&pool, 64, stream.get()));
        stream.synchronize();
        attempt(reinterpret_cast<void*>(pool), "rank 1 cannot take part: ", tuttiUnsupported);
        CUDA_OK(cuMemFreeAsync(pool, stream.get()));
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        OK(tuttiWindowDeregister(window));
        me.meet();
      },
      2);
}

TEST(GpuWindowMistakes, TheBufferLiesOnTheRanksGpu) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  each_rank(
      [](const Member& me) {
        use_gpu(0);
        const GpuBuffer memory(64);  // of rank 0's GPU
        use_gpu(me.device);
        tuttiWindow_t window = nullptr;
        refused(tuttiWindowRegister(me.comm, memory.get(), 64, &window), tuttiInvalidArgument,
                "rank 1 cannot take part: the buffer lies on device 0, but this rank uses GPU 1");
        me.meet();
      },
      2);
}

/// Why windows cannot be, on machines that the test is given (FAKE_CUDA_...).
TEST(GpuWindowRefused, WithTheReason) {
  const char* const reason = std::getenv("REASON");
  ASSERT_NE(reason, nullptr);
  each_rank(
      [&](const Member& me) {
        const Memory memory(me, 64);
        tuttiWindow_t window = nullptr;
        refused(tuttiWindowRegister(me.comm, memory.at(), 64, &window), tuttiUnsupported, reason);
        me.meet();
      },
      2);
}

TEST(GpuWindowRefused, AtomicStepsOverPcie) {
  each_rank(
      [&](const Member& me) {
        const Part part(me, 64);
        refused(tuttiAtomicAdd(1, nullptr, me.next(), 0, part.window, nullptr), tuttiInvalidUsage,
                "as far as this process sees, NVLink does not join");
        OK(tuttiAtomicAdd(1, nullptr, me.rank, 0, part.window, nullptr));
        OK(tuttiSignal(me.next(), 0, part.window, nullptr));
        OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, nullptr));
      },
      2);
}

// ---- failures

constexpr uint64_t kNever = 5;  // signals that nobody sends
constexpr int kMany = 3000;     // turns in which another thread gets far, if nothing holds it

/// Rank 0's stream waits for rank 1, which does something else.
void while_rank_0_waits(tuttiResult_t result, const std::vector<std::string>& says, double timeout,
                        const std::function<void(const Member&)>& rank_1) {
  std::atomic<bool> waits{false};
  each_rank(
      [&](const Member& me) {
        const Memory memory(me, 64);
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        if (me.rank == 1) {
          while (!waits) std::this_thread::yield();
          return rank_1(me);
        }
        const GpuStream stream;
        OK(tuttiWaitSignal(1, 2, kNever, window, stream.handle()));
        waits = true;
        stream.synchronize();
        const std::string text = failure_of(me.comm, result);
        for (const std::string& part : says) expect_contains(text, part);
        EXPECT_EQ(tuttiSignal(1, 0, window, stream.handle()), result) << tuttiGetLastError();
      },
      2, result, timeout);
}

const std::string kWait = "rank 0: wait_signal(5 of signal 2, from rank 1) on the window of call ";

TEST(GpuWindowFailures, AnAbortEndsAWait) {
  while_rank_0_waits(tuttiAborted, {kWait, "the call waited for a signal of rank 1"}, 0,
                     [](const Member& me) { OK(tuttiCommAbort(me.comm)); });
}

TEST(GpuWindowFailures, ARevokeEndsAWait) {
  while_rank_0_waits(tuttiRevoked, {kWait, "the call waited for a signal of rank 1"}, 0,
                     [](const Member& me) { OK(tuttiCommRevoke(me.comm)); });
}

TEST(GpuWindowFailures, AWaitThatIsTooLongNamesTheRankAndTheWindow) {
  while_rank_0_waits(tuttiTimeout,
                     {"rank 0 waited 0.", "for a signal of rank 1 in " + kWait.substr(kWait.find("wait_signal"))}, 0.3,
                     [](const Member& me) { failure_of(me.comm, tuttiTimeout); });
}

TEST(GpuWindowFailures, ARankThatLeavesEndsWaitsForItsSignals) {
  std::atomic<bool> waits{false};
  tuttiUniqueId id;
  OK(tuttiGetUniqueId(&id));
  run_ranks(2, [&](int rank) {
    use_gpu(rank % count_gpus());
    Member me{.rank = rank, .ranks = 2, .device = rank % count_gpus()};
    OK(tuttiCommInitRank(&me.comm, 2, id, rank));
    const Memory memory(me, 64);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
    if (rank == 1) {
      OK(tuttiSignal(0, 0, window, nullptr));
      while (!waits) std::this_thread::yield();
      tuttiCommDestroy(me.comm);
      return;
    }
    const GpuStream stream;
    OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));  // it has sent this one
    OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));
    waits = true;
    const std::string text = failure_of(me.comm, tuttiMismatch);
    expect_contains(text, "rank 1 has left without a signal that rank 0 waits for");
    stream.synchronize();
    EXPECT_EQ(tuttiPut(memory.at(), 8, 1, 0, window, nullptr), tuttiMismatch);
    tuttiCommDestroy(me.comm);
  });
}

/// What a call does on a part of a rank that has left.
TEST(GpuWindowFailures, APartOfARankThatHasLeftIsNotWritten) {
  std::atomic<bool> left{false};
  tuttiUniqueId id;
  OK(tuttiGetUniqueId(&id));
  run_ranks(2, [&](int rank) {
    use_gpu(0);
    Member me{.rank = rank, .ranks = 2};
    OK(tuttiCommInitRank(&me.comm, 2, id, rank));
    const Memory memory(me, 64);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
    if (rank == 1) {
      OK(tuttiSignal(0, 3, window, nullptr));
      std::thread([&] {
        tuttiCommDestroy(me.comm);  // waits until rank 0 leaves too, when nobody writes to its part any more
      }).detach();
      while (!left) std::this_thread::yield();
      return;
    }
    tuttiResult_t result = tuttiSuccess;
    while ((result = tuttiPut(memory.at(), 8, 1, 0, window, nullptr)) == tuttiSuccess) std::this_thread::yield();
    refused(result, tuttiInvalidUsage, "rank 1 has left the communicator");
    refused(tuttiSignal(1, 0, window, nullptr), tuttiInvalidUsage, "rank 1 has left the communicator");
    OK(tuttiWaitSignal(1, 3, 1, window, nullptr));  // it has sent this one before
    left = true;
    tuttiCommDestroy(me.comm);
  });
}

TEST(GpuWindowFailures, StreamsThatWaitForEachOtherAreADeadlock) {
  each_rank(
      [](const Member& me) {
        const Memory memory(me, 64);
        const GpuStream stream;
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        OK(tuttiWaitSignal(1 - me.rank, 0, 1, window, stream.handle()));
        stream.synchronize();
        const std::string text = failure_of(me.comm, tuttiMismatch);
        expect_contains(text, "ranks wait for each other");
        expect_contains(text, "wait_signal(1 of signal 0, from rank 1) on the window of call 1");
      },
      2, tuttiMismatch);
}

/// A call without a stream returns the failure.
TEST(GpuWindowFailures, AnAbortEndsAWaitWithoutAStream) {
  each_rank(
      [](const Member& me) {
        const Memory memory(me, 64);
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        OK(tuttiSignal(1 - me.rank, 0, window, nullptr));
        OK(tuttiWaitSignal(1 - me.rank, 0, 1, window, nullptr));
        if (me.rank == 1) {
          OK(tuttiCommAbort(me.comm));
          return;
        }
        EXPECT_EQ(tuttiWaitSignal(1, 0, 1, window, nullptr), tuttiAborted);
        expect_contains(tuttiGetLastError(), "aborted the communicator");
      },
      2, tuttiAborted);
}

/// A deregistration waits for what streams still do with the window, of all ranks.
TEST(GpuWindowFailures, ADeregistrationWaitsForCallsUnderWay) {
  static std::atomic<bool> enqueued, ended, done, done_before;
  enqueued = ended = done = done_before = false;
  each_rank(
      [](const Member& me) {
        const Memory source(me, 4096), memory(me, 4096);
        source.set(0, Bytes(4096, 7));
        const GpuStream stream;
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 4096, &window));
        if (me.rank == 0) {
          CUDA_OK(cuLaunchHostFunc(
              stream.get(),
              [](void*) {
                while (!enqueued) std::this_thread::yield();
                for (int turn = 0; turn < kMany; ++turn) std::this_thread::yield();
                done_before = done.load();
                ended = true;
              },
              nullptr));
          OK(tuttiPut(source.at(), 4096, 1, 0, window, stream.handle()));
          enqueued = true;
        }
        OK(tuttiWindowDeregister(window));
        done = true;
        EXPECT_TRUE(ended);
        EXPECT_FALSE(done_before);
        if (me.rank == 1) {
          EXPECT_TRUE(memory.all() == Bytes(4096, 7));
        }
        me.meet();
      },
      2);
}

/// A window that ends before its calls leaves no stream waiting.
TEST(GpuWindowFailures, ADeregistrationBeforeASignalHasComeIsTheErrorOfAll) {
  each_rank(
      [](const Member& me) {
        const Memory memory(me, 64);
        const GpuStream stream;
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        if (me.rank == 0) OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));
        EXPECT_EQ(tuttiWindowDeregister(window), tuttiTimeout) << tuttiGetLastError();
        stream.synchronize();
      },
      2, tuttiTimeout, 0.3);
}

/// A wait that is enqueued behind something of the program, and begins when the communicator has failed, or is gone.
TEST(GpuWindowFailures, AWaitThatBeginsAfterTheFailureEnds) {
  static std::atomic<bool> released;
  released = false;
  use_gpu(0);
  const GpuStream stream;
  each_rank(
      [&](const Member& me) {
        const Memory memory(me, 64);
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
        if (me.rank == 0) {
          CUDA_OK(cuLaunchHostFunc(
              stream.get(),
              [](void*) {
                while (!released) std::this_thread::yield();
              },
              nullptr));
          OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));
          OK(tuttiCommAbort(me.comm));
        }
        failure_of(me.comm, tuttiAborted);
        released = true;
      },
      2, tuttiAborted);
  stream.synchronize();
}

/// A rank that dies: of processes. The other one says what it has heard, and ends.
TEST(GpuWindowDeath, EndsTheWaitsOfOthers) {
  if (!is_process()) GTEST_SKIP() << "it takes processes";
  use_gpu(std::atoi(std::getenv("TUTTI_RANK")) % count_gpus());
  Member me{.ranks = 2, .device = std::atoi(std::getenv("TUTTI_RANK")) % count_gpus()};
  OK(tuttiCommInitEnv(&me.comm));
  OK(tuttiCommUserRank(me.comm, &me.rank));
  const Memory memory(me, 64);
  tuttiWindow_t window = nullptr;
  OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
  if (me.rank == 1) {
    OK(tuttiSignal(0, 0, window, nullptr));
    OK(tuttiWaitSignal(0, 1, 1, window, nullptr));  // rank 0 waits now
    raise(SIGKILL);
  }
  const GpuStream stream;
  OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));
  OK(tuttiSignal(1, 1, window, stream.handle()));
  OK(tuttiWaitSignal(1, 0, 1, window, stream.handle()));
  stream.synchronize();
  const std::string text = failure_of(me.comm, tuttiPeerFailed);
  expect_contains(text, "rank 0: wait_signal(1 of signal 0, from rank 1) on the window of call ");
  expect_contains(text, "rank 1 (process ");
  EXPECT_EQ(tuttiWindowDeregister(window), tuttiPeerFailed);
  std::printf("%s: %s\n", testing::Test::HasFailure() ? "wrong" : "rank 0 goes on", text.c_str());
  std::fflush(stdout);
  tuttiCommDestroy(me.comm);
}

}  // namespace
}  // namespace tutti::test
