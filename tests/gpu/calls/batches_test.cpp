// Collectives of a group: one launch runs those that follow each other on a stream.
#include <dlfcn.h>

#include "calls/gpu_program.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti {
namespace {

constexpr int kRanks = 2;
constexpr size_t kBatch = exec::gpu::kMaxBatch;

using CallsOf = uint64_t (*)(const char*);
CallsOf driver_calls() { return reinterpret_cast<CallsOf>(::dlsym(RTLD_DEFAULT, "fake_cuda_calls")); }

/// A rank with a GPU of its own, and buffers of which each is the input of the call that fills the next one.
class Chain {
 public:
  Chain(int its_rank, tuttiComm_t its_comm, size_t buffers, size_t its_count)
      : rank(its_rank), comm(its_comm), count(its_count) {
    for (size_t i = 0; i <= buffers; ++i) buffers_.push_back(std::make_unique<GpuBuffer>(count * 4));
  }
  const int rank;
  const tuttiComm_t comm;
  const size_t count;
  GpuStream stream;

  void* at(size_t i) const { return buffers_[i]->get(); }
  void start() const { upload(*buffers_.front(), std::vector<float>(count, static_cast<float>(rank + 1))); }
  /// Sums: every call after the first doubles.
  void sum_up(size_t i, size_t elements) const {
    EXPECT_EQ(tuttiAllReduce(at(i), at(i + 1), elements, tuttiFloat32, tuttiSum, comm, stream.handle()), tuttiSuccess)
        << tuttiGetLastError();
  }
  std::vector<float> result(size_t i, size_t elements) const {
    std::vector<float> values(elements);
    EXPECT_EQ(cuMemcpyDtoHAsync(values.data(), reinterpret_cast<CUdeviceptr>(at(i)), elements * 4, stream.get()),
              CUDA_SUCCESS);
    stream.synchronize();
    return values;
  }

 private:
  void upload(const GpuBuffer& to, const std::vector<float>& values) const {
    EXPECT_EQ(
        cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to.get()), values.data(), values.size() * 4, stream.get()),
        CUDA_SUCCESS);
    stream.synchronize();
  }
  std::vector<std::unique_ptr<GpuBuffer>> buffers_;
};

void each_rank(size_t buffers, size_t count, tuttiResult_t at_the_end, const std::function<void(const Chain&)>& body) {
  tuttiUniqueId id;
  ASSERT_TUTTI(tuttiGetUniqueId(&id));
  run_ranks(kRanks, [&](int rank) {
    use_gpu(rank);
    tuttiComm_t comm = nullptr;
    ASSERT_TUTTI(tuttiCommInitRank(&comm, kRanks, id, rank));
    {
      const Chain chain(rank, comm, buffers, count);
      meet();
      body(chain);
      meet();  // before memory is freed
    }
    EXPECT_EQ(tuttiCommDestroy(comm), at_the_end) << tuttiGetLastError();
  });
}
void each_rank(size_t buffers, size_t count, const std::function<void(const Chain&)>& body) {
  each_rank(buffers, count, tuttiSuccess, body);
}

std::vector<float> sum_after(size_t calls, size_t elements) {
  return std::vector<float>(elements, static_cast<float>(3U << (calls - 1)));
}

/// Each begins when the one before has ended, also with several blocks, and sees what that has stored.
TEST(Batches, AGroupOfCollectivesIsOneLaunch) {
  const CallsOf calls_of = driver_calls();
  if (calls_of == nullptr) GTEST_SKIP() << "the driver is a real one";
  static uint64_t before = 0;
  for (const size_t count : {size_t{8}, size_t{1} << 18}) {
    for (const size_t calls : {size_t{2}, kBatch, kBatch + 3}) {
      each_rank(calls, count, [&](const Chain& mine) {
        for (int turn = 0; turn < 3; ++turn) {  // the first compiles
          mine.start();
          meet();
          if (mine.rank == 0) before = calls_of("cuLaunchKernel");
          meet();
          ASSERT_TUTTI(tuttiGroupStart());
          for (size_t i = 0; i < calls; ++i) mine.sum_up(i, count);
          ASSERT_TUTTI(tuttiGroupEnd());
          EXPECT_EQ(mine.result(calls, count), sum_after(calls, count)) << calls << " calls, turn " << turn;
          meet();
          const size_t launches = kRanks * ((calls + kBatch - 1) / kBatch);
          if (mine.rank == 0 && turn > 0) {
            EXPECT_EQ(calls_of("cuLaunchKernel") - before, launches) << calls;
          }
          meet();
        }
      });
    }
  }
}

/// Calls of other types have kernels of their own; their order is kept.
TEST(Batches, CallsOfAllKindsKeepTheirOrder) {
  constexpr size_t kCount = 100000;
  each_rank(8, kCount, [](const Chain& mine) {
    for (int turn = 0; turn < 2; ++turn) {
      mine.start();
      ASSERT_TUTTI(tuttiGroupStart());
      mine.sum_up(0, kCount);
      mine.sum_up(1, 100);
      ASSERT_TUTTI(tuttiAllGather(mine.at(2), mine.at(3), 50, tuttiFloat32, mine.comm, mine.stream.handle()));
      mine.sum_up(3, 100);
      ASSERT_TUTTI(tuttiBroadcast(mine.at(4), mine.at(5), 100, tuttiFloat32, 1, mine.comm, mine.stream.handle()));
      mine.sum_up(5, 100);
      ASSERT_TUTTI(tuttiAllReduce(mine.at(6), mine.at(7), 100, tuttiInt32, tuttiMax, mine.comm, mine.stream.handle()));
      mine.sum_up(7, 100);
      ASSERT_TUTTI(tuttiGroupEnd());
      EXPECT_EQ(mine.result(8, 100), sum_after(5, 100));
      EXPECT_EQ(mine.result(1, kCount), sum_after(1, kCount));
    }
  });
}

/// Sends and receives have programs of another kind.
TEST(Batches, TransfersAmidAGroup) {
  each_rank(4, 1000, [](const Chain& mine) {
    for (int turn = 0; turn < 3; ++turn) {
      mine.start();
      ASSERT_TUTTI(tuttiGroupStart());
      mine.sum_up(0, 1000);
      mine.sum_up(1, 1000);
      ASSERT_TUTTI(tuttiSend(mine.at(0), 1000, tuttiFloat32, 1 - mine.rank, mine.comm, mine.stream.handle()));
      ASSERT_TUTTI(tuttiRecv(mine.at(4), 1000, tuttiFloat32, 1 - mine.rank, mine.comm, mine.stream.handle()));
      mine.sum_up(2, 1000);
      ASSERT_TUTTI(tuttiGroupEnd());
      EXPECT_EQ(mine.result(3, 1000), sum_after(3, 1000));
      EXPECT_EQ(mine.result(4, 1000), std::vector<float>(1000, static_cast<float>(2 - mine.rank)));
    }
  });
}

TEST(Batches, ACapturedGroupIsRepeated) {
  each_rank(5, 40000, [](const Chain& mine) {
    const Graph graph(mine.stream, [&] {
      ASSERT_TUTTI(tuttiGroupStart());
      for (size_t i = 0; i < 5; ++i) mine.sum_up(i, mine.count);
      ASSERT_TUTTI(tuttiGroupEnd());
    });
    meet();
    for (int turn = 0; turn < 10; ++turn) {
      mine.start();
      graph.launch(mine.stream);
      EXPECT_EQ(mine.result(5, mine.count), sum_after(5, mine.count));
    }
  });
}

/// One rank's group is another's single calls.
TEST(Batches, OneRankGroupsWhatAnotherCalls) {
  each_rank(6, 1000, [](const Chain& mine) {
    for (int turn = 0; turn < 5; ++turn) {
      mine.start();
      const bool groups = mine.rank == turn % kRanks;
      if (groups) {
        ASSERT_TUTTI(tuttiGroupStart());
      }
      for (size_t i = 0; i < 6; ++i) mine.sum_up(i, mine.count);
      if (groups) {
        ASSERT_TUTTI(tuttiGroupEnd());
      }
      EXPECT_EQ(mine.result(6, mine.count), sum_after(6, mine.count));
    }
  });
}

TEST(Batches, AMismatchAmidAGroupNamesBothCalls) {
  each_rank(4, 1000, tuttiMismatch, [](const Chain& mine) {
    ASSERT_TUTTI(tuttiGroupStart());
    for (size_t i = 0; i < 4; ++i) mine.sum_up(i, i == 2 && mine.rank == 1 ? 16 : 8);
    ASSERT_TUTTI(tuttiGroupEnd());
    mine.stream.synchronize();
    const std::string text = failure_of(mine.comm, tuttiMismatch);
    expect_contains(text, "(count=8, f32, sum)");
    expect_contains(text, "(count=16, f32, sum)");
  });
}

/// A call on memory of the host, which the thread runs itself, begins when those before it have been launched.
TEST(Batches, AHostCallDoesNotHoldUpWhatCameBefore) {
  each_rank(3, 1000, [](const Chain& mine) {
    mine.start();
    std::vector<float> host(8);
    ASSERT_TUTTI(tuttiGroupStart());
    mine.sum_up(0, 8);
    mine.sum_up(1, 8);
    ASSERT_TUTTI(tuttiAllReduce(host.data(), host.data(), 8, tuttiFloat32, tuttiSum, mine.comm, nullptr));
    ASSERT_TUTTI(tuttiGroupEnd());
    EXPECT_EQ(mine.result(2, 8), sum_after(2, 8));
  });
}

}  // namespace
}  // namespace tutti
