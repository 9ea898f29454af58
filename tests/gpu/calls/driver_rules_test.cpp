// On a driver whose allocations wait for kernels and whose queues are bounded (FAKE_CUDA_RULES=drain,queue): no call
// asks it for memory, however many are made, of whatever kind, without a synchronisation.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "calls/driver_rules.hpp"

namespace tutti {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kCalls = 1000;  // of both ranks
#else
constexpr size_t kCalls = 10000;
#endif

uint64_t draining_calls() {
  const auto count = reinterpret_cast<uint64_t (*)()>(::dlsym(RTLD_DEFAULT, "fake_cuda_draining_calls"));
  return count == nullptr ? 0 : count();
}

uint64_t driver_calls(const char* name) {
  const auto count = reinterpret_cast<uint64_t (*)(const char*)>(::dlsym(RTLD_DEFAULT, "fake_cuda_calls"));
  return count == nullptr ? 0 : count(name);
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

void every_collective(const float* in, float* out, size_t count, tuttiComm_t comm, tuttiStream_t stream) {
  ASSERT_TUTTI(tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm, stream));
  ASSERT_TUTTI(tuttiAllGather(in, out, count / 2, tuttiFloat32, comm, stream));
  ASSERT_TUTTI(tuttiReduceScatter(in, out, count / 2, tuttiFloat32, tuttiMax, comm, stream));
  ASSERT_TUTTI(tuttiAllToAll(in, out, count / 2, tuttiFloat32, comm, stream));
  ASSERT_TUTTI(tuttiBroadcast(in, out, count, tuttiFloat32, 0, comm, stream));
  ASSERT_TUTTI(tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, 1, comm, stream));
  ASSERT_TUTTI(tuttiGather(in, out, count / 2, tuttiFloat32, 0, comm, stream));
  ASSERT_TUTTI(tuttiScatter(in, out, count / 2, tuttiFloat32, 1, comm, stream));
}

TEST_F(DriverRules, FirstCallsOfAllKindsAskForNoMemory) {
  each_rank([](int rank, tuttiComm_t comm, const Own& own) {
    const tuttiStream_t stream = own.stream.handle();
    const uint64_t asked = counted(draining_calls, [&] {
      for (const size_t count : {size_t{2}, size_t{3000}, kCount}) {
        every_collective(own.input(), own.output(), count, comm, stream);
        ASSERT_TUTTI(tuttiGroupStart());
        EXPECT_EQ(tuttiSend(own.input(), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(own.output(), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
        ASSERT_TUTTI(tuttiGroupEnd());
        const size_t counts[] = {count / 2, count - count / 2};
        ASSERT_TUTTI(
            tuttiAllGatherV(own.input(), counts[rank], own.output(), counts, nullptr, tuttiFloat32, comm, stream));
      }
    });
    EXPECT_EQ(asked, 0U);
  });
}

/// The lengths differ from call to call, as those of experts do.
TEST_F(DriverRules, TenThousandCallsAskForNoMemoryAndForNoUpload) {
  each_rank([](int rank, tuttiComm_t comm, const Own& own) {
    const tuttiStream_t stream = own.stream.handle();
    const auto call = [&](size_t i) {
      const size_t count = 1 + i * 37 % 500, other = 1 + i * 53 % 500;
      switch (i % 4) {
        case 0:
          ASSERT_TUTTI(tuttiAllReduce(own.input(), own.output(), 8, tuttiFloat32, tuttiSum, comm, stream));
          return;
        case 1: {
          ASSERT_TUTTI(tuttiGroupStart());
          EXPECT_EQ(tuttiSend(own.input(), rank == 0 ? count : other, tuttiFloat32, 1 - rank, comm, stream),
                    tuttiSuccess);
          EXPECT_EQ(tuttiRecv(own.output(), rank == 0 ? other : count, tuttiFloat32, 1 - rank, comm, stream),
                    tuttiSuccess);
          ASSERT_TUTTI(tuttiGroupEnd());
          return;
        }
        case 2: {
          const size_t counts[] = {count, other};
          ASSERT_TUTTI(tuttiReduceScatterV(own.input(), own.output(), counts, tuttiFloat32, tuttiSum, comm, stream));
          return;
        }
        default: {
          const size_t sent[] = {count, other}, each = rank == 0 ? count : other, got[] = {each, each};
          ASSERT_TUTTI(
              tuttiAllToAllV(own.input(), sent, nullptr, own.output(), got, nullptr, tuttiFloat32, comm, stream));
          return;
        }
      }
    };
    for (size_t i = 0; i < 16; ++i) call(i);
    meet();  // what is counted is the process's
    const size_t before = free_bytes();
    const uint64_t uploads = driver_calls("cuMemcpyHtoDAsync");
    const uint64_t asked = counted(draining_calls, [&] {
      for (size_t i = 0; i < kCalls / 2; ++i) call(i);
    });
    EXPECT_EQ(asked, 0U);
    EXPECT_EQ(driver_calls("cuMemcpyHtoDAsync"), uploads);
    EXPECT_EQ(free_bytes(), before);
    for (const char* const name : {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"}) {
      EXPECT_EQ(counted([&] { return driver_calls(name); }, [&] { call(0); }), 0U) << name;
    }
  });
}

TEST_F(DriverRules, AThousandGroupsOfTransfersNeedNoMoreMemory) {
  each_rank([](int rank, tuttiComm_t comm, const Own& own) {
    const tuttiStream_t stream = own.stream.handle();
    const uint64_t asked = counted(draining_calls, [&] {
      for (size_t i = 0; i < 1000; ++i) {
        ASSERT_TUTTI(tuttiGroupStart());
        EXPECT_EQ(tuttiSend(own.input(), 1024, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(own.output(), 1024, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
        ASSERT_TUTTI(tuttiGroupEnd());
      }
    });
    EXPECT_EQ(asked, 0U);
  });
}

/// More transfers than a launch holds, of all lengths: each arrives where it belongs.
TEST_F(DriverRules, ManyTransfersOfAllLengthsArrive) {
  constexpr size_t kTransfers = 40, kEach = kCount / kTransfers;
  for (auto& own : owns_) {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
    own->in.set(values);
  }
  each_rank([](int rank, tuttiComm_t comm, const Own& own) {
    const tuttiStream_t stream = own.stream.handle();
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_TUTTI(tuttiGroupStart());
      for (size_t i = 0; i < kTransfers; ++i) {
        const size_t count = i * 10;
        EXPECT_EQ(tuttiSend(own.input(i * kEach), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(own.output(i * kEach), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
      }
      ASSERT_TUTTI(tuttiGroupEnd());
    }
    own.stream.synchronize();
    const std::vector<float> got = own.out.floats(kCount);
    for (size_t i = 0; i < kTransfers; ++i) {
      for (size_t k = 0; k < i * 10; ++k) ASSERT_EQ(got[i * kEach + k], static_cast<float>(i * kEach + k)) << i;
    }
  });
}

/// By several blocks, each its share; the lengths divide in no way.
TEST_F(DriverRules, LongTransfersAreDividedAmongBlocks) {
  constexpr size_t kLong = 400001;
  std::array<std::unique_ptr<GpuBuffer>, 2> ins, outs;
  std::vector<float> values(kLong);
  for (size_t i = 0; i < kLong; ++i) values[i] = static_cast<float>(i);
  for (size_t rank = 0; rank < 2; ++rank) {
    ins[rank] = std::make_unique<GpuBuffer>(kLong * 4);
    outs[rank] = std::make_unique<GpuBuffer>(kLong * 4);
    ins[rank]->set(values);
  }
  each_rank([&](int rank, tuttiComm_t comm, const Own& own) {
    const auto me = static_cast<size_t>(rank);
    const tuttiStream_t stream = own.stream.handle();
    for (const size_t count : {kLong, size_t{16384}, size_t{32768}, size_t{70000}}) {
      outs[me]->set(std::vector<float>(kLong, -1));
      ASSERT_TUTTI(tuttiGroupStart());
      EXPECT_EQ(tuttiSend(ins[me]->get(), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiRecv(outs[me]->get(), count, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
      ASSERT_TUTTI(tuttiGroupEnd());
      own.stream.synchronize();
      const std::vector<float> got = outs[me]->floats(kLong);
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + static_cast<ptrdiff_t>(count), values.begin())) << count;
      EXPECT_EQ(std::count(got.begin(), got.end(), -1), static_cast<ptrdiff_t>(kLong - count));
    }
  });
}

/// One thread, four communicators: what ncclCommInitAll's users do.
TEST_F(DriverRules, OneThreadDrivesFourRanks) {
  use_gpu(0);
  std::vector<tuttiComm_t> comms(4);
  ASSERT_TUTTI(tuttiCommInitAll(comms.data(), 4));
  std::vector<std::unique_ptr<Own>> owns;
  for (size_t i = 0; i < comms.size(); ++i) owns.push_back(std::make_unique<Own>());
  const uint64_t before = draining_calls();
  for (const size_t count : {size_t{2}, kCount, size_t{3000}}) {
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_TUTTI(tuttiGroupStart());
      for (size_t i = 0; i < comms.size(); ++i) {
        const tuttiStream_t stream = owns[i]->stream.handle();
        EXPECT_EQ(tuttiAllReduce(owns[i]->input(), owns[i]->output(), count, tuttiFloat32, tuttiSum, comms[i], stream),
                  tuttiSuccess);
        const int next = static_cast<int>((i + 1) % 4), last = static_cast<int>((i + 3) % 4);
        EXPECT_EQ(tuttiSend(owns[i]->input(), count, tuttiFloat32, next, comms[i], stream), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(owns[i]->output(), count, tuttiFloat32, last, comms[i], stream), tuttiSuccess);
      }
      ASSERT_TUTTI(tuttiGroupEnd());
    }
  }
  EXPECT_EQ(draining_calls(), before);
  for (const auto& own : owns) own->stream.synchronize();
  run_ranks(4, [&](int rank) { EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess); });
}

/// A peer comes late: the caller waits in the library after 256 calls, and goes on when the peer is there.
TEST_F(DriverRules, ARankThatIsFarAheadWaits) {
  std::atomic<int> made{0};
  each_rank([&](int rank, tuttiComm_t comm, const Own& own) {
    if (rank == 1) {
      while (made < 256) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // in which it would make more
      EXPECT_EQ(made, 256);
    }
    for (int i = 0; i < 1500; ++i) {
      ASSERT_TUTTI(tuttiAllReduce(own.input(), own.output(), 2, tuttiFloat32, tuttiSum, comm, own.stream.handle()));
      made += rank == 0 ? 1 : 0;
    }
  });
}

/// A group with more calls than a rank may be ahead, of two ranks of one thread: each waits for calls of the other.
TEST_F(DriverRules, ALongGroupOfOneThreadEnds) {
  std::vector<tuttiComm_t> comms(2);
  ASSERT_TUTTI(tuttiCommInitAll(comms.data(), 2));
  ASSERT_TUTTI(tuttiGroupStart());
  for (int i = 0; i < 600; ++i) {
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(tuttiAllReduce(owns_[rank]->input(), owns_[rank]->output(), 2, tuttiFloat32, tuttiSum, comms[rank],
                               owns_[rank]->stream.handle()),
                tuttiSuccess);
    }
  }
  ASSERT_TUTTI(tuttiGroupEnd());
  for (const auto& own : owns_) own->stream.synchronize();
  run_ranks(2, [&](int rank) { EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess); });
}

// ---- memory

/// With TUTTI_CUDA_PROGRAMS=2M: more programs than there is memory for. The oldest make room, and are made again.
TEST_F(DriverRules, ProgramsThatWereUsedLongestAgoMakeRoom) {
  for (auto& own : owns_) own->in.set(std::vector<float>(kCount, 1));
  each_rank([](int, tuttiComm_t comm, const Own& own) {
    const uint64_t asked = counted(draining_calls, [&] {
      for (int turn = 0; turn < 2; ++turn) {
        for (size_t count = 1; count <= 600; ++count) {
          ASSERT_TUTTI(
              tuttiAllReduce(own.input(), own.output(count), count, tuttiFloat32, tuttiSum, comm, own.stream.handle()));
        }
      }
    });
    EXPECT_EQ(asked, 0U);
    own.stream.synchronize();
    EXPECT_EQ(own.out.floats(1200)[1199], 2);
  });
}

/// With TUTTI_CUDA_PROGRAMS=2M: programs of captured calls are written at once, not in the order of a stream. They are
/// not written where calls that were made and have not run yet will read.
TEST_F(DriverRules, ProgramsOfCapturedCallsWaitForThoseOfCallsThatRun) {
  constexpr size_t kWaiting = 200;
  for (auto& own : owns_) own->in.set(std::vector<float>(kCount, 1));
  each_rank([](int rank, tuttiComm_t comm, const Own& own) {
    const auto call = [&](size_t count) {
      ASSERT_TUTTI(tuttiAllReduce(own.input(), own.output(), count, tuttiFloat32, tuttiSum, comm, own.stream.handle()));
    };
    for (size_t count = 1001; count <= 1600; ++count) call(count);
    own.stream.synchronize();
    own.out.set(std::vector<float>(kCount, -1));
    meet();
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (size_t count = 1; count <= kWaiting; ++count) call(count);
    for (size_t count = 2001; rank == 0 && count <= 2800; ++count) {
      CUgraph graph = nullptr;
      ASSERT_EQ(cuStreamBeginCapture(own.stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
      call(count);
      ASSERT_EQ(cuStreamEndCapture(own.stream.get(), &graph), CUDA_SUCCESS);
      cuGraphDestroy(graph);
    }
    own.stream.synchronize();
    const std::vector<float> sums = own.out.floats(kWaiting + 1);
    for (size_t i = 0; i < kWaiting; ++i) ASSERT_EQ(sums[i], 2) << i;
    EXPECT_EQ(sums[kWaiting], -1);
  });
}

/// Captured calls keep their programs: then it is an error that says what to do.
TEST_F(DriverRules, ProgramsOfGraphsMakeNoRoom) {
  std::vector<std::unique_ptr<Graph>> graphs;
  with_ranks(
      1,
      [&](int, tuttiComm_t comm) {
        use_gpu(0);
        const Own& own = *owns_[0];
        tuttiResult_t result = tuttiSuccess;
        for (size_t count = 1; count <= 4000 && result == tuttiSuccess; ++count) {
          graphs.push_back(std::make_unique<Graph>(own.stream, [&] {
            result =
                tuttiAllReduce(own.input(), own.output(), count, tuttiFloat32, tuttiSum, comm, own.stream.handle());
          }));
        }
        EXPECT_EQ(result, tuttiOutOfMemory);
        expect_contains(tuttiGetLastError(),
                        "that a communicator has for programs are used up: raise TUTTI_CUDA_PROGRAMS");
      },
      tuttiOutOfMemory);
}

}  // namespace
}  // namespace tutti
