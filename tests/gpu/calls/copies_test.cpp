// Calls that the copy engines run: without a kernel, in any mixture with those of kernels, called or replayed; and
// those that cannot end well. TUTTI_METHOD=copy_engine.
#include <dlfcn.h>

#include <functional>
#include <memory>
#include <thread>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 3001;  // elements of a block

/// Of the whole process, so far; only the stand-in for the driver knows.
uint64_t kernels_run() {
  const auto count = reinterpret_cast<uint64_t (*)()>(::dlsym(RTLD_DEFAULT, "fake_cuda_kernels"));
  return count == nullptr ? 0 : count();
}

/// A rank's buffers of n blocks. What rank r sends to rank q in turn t begins with 1000·t + 10·r + q.
class Blocks {
 public:
  Blocks(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  unsigned char* in() const { return in_.get(); }
  unsigned char* out() const { return out_.get(); }

  static float first_of(int turn, int from, int to) { return static_cast<float>(1000 * turn + 10 * from + to); }
  static void append(std::vector<float>& blocks, float first) {
    for (size_t i = 0; i < kCount; ++i) blocks.push_back(first + static_cast<float>(i));
  }
  /// On the call's own stream: another one may wait, in a hardware queue, behind a stream that waits for this rank.
  void fill(int turn, bool gathers, const GpuStream& stream) const {
    std::vector<float> blocks;
    for (int to = 0; to < ranks_; ++to) append(blocks, first_of(turn, rank_, gathers ? 0 : to));
    const std::vector<float> poison(blocks.size(), -1);
    EXPECT_EQ(cuMemcpyHtoDAsync(at(in_), blocks.data(), blocks.size() * 4, stream.get()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(at(out_), poison.data(), poison.size() * 4, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
  }
  std::vector<float> received(const GpuStream& stream) const {
    std::vector<float> blocks(kCount * static_cast<size_t>(ranks_));
    EXPECT_EQ(cuMemcpyDtoHAsync(blocks.data(), at(out_), blocks.size() * 4, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
    return blocks;
  }
  void expect(int turn, bool gathers, const GpuStream& stream) const {
    std::vector<float> blocks;
    for (int from = 0; from < ranks_; ++from) append(blocks, first_of(turn, from, gathers ? 0 : rank_));
    EXPECT_EQ(received(stream), blocks) << "rank " << rank_ << ", turn " << turn;
  }
  tuttiResult_t call(bool gathers, size_t count, tuttiComm_t comm, const GpuStream& stream) const {
    return gathers ? tuttiAllGather(in_.get(), out_.get(), count, tuttiFloat32, comm, stream.handle())
                   : tuttiAllToAll(in_.get(), out_.get(), count, tuttiFloat32, comm, stream.handle());
  }

 private:
  static CUdeviceptr at(const GpuBuffer& buffer) { return reinterpret_cast<CUdeviceptr>(buffer.get()); }
  const int rank_, ranks_;
  GpuBuffer in_{kCount * 4 * static_cast<size_t>(ranks_)}, out_{kCount * 4 * static_cast<size_t>(ranks_)};
};

struct CopyRank {
  CopyRank(int rank_, int ranks_, tuttiComm_t comm_) : rank(rank_), ranks(ranks_), comm(comm_), blocks(rank_, ranks_) {}
  const int rank, ranks;
  const tuttiComm_t comm;
  const Blocks blocks;
  GpuStream stream;

  void fill(int turn, bool gathers) const { blocks.fill(turn, gathers, stream); }
  void expect(int turn, bool gathers) const { blocks.expect(turn, gathers, stream); }
  tuttiResult_t call(bool gathers, size_t count = kCount) const { return blocks.call(gathers, count, comm, stream); }
  void must_call(bool gathers) const { EXPECT_EQ(call(gathers), tuttiSuccess) << tuttiGetLastError(); }
};

/// `at_the_end`: of destroying the communicator; none: that may differ.
void each_rank(int ranks, const std::function<void(CopyRank&)>& body,
               std::optional<tuttiResult_t> at_the_end = tuttiSuccess) {
  int devices = 0;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetCount(&devices), CUDA_SUCCESS);
  std::vector<tuttiComm_t> comms(static_cast<size_t>(ranks));
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(ranks, [&](int rank) {
    use_gpu(rank % devices);
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&comm, ranks, id, rank), tuttiSuccess) << tuttiGetLastError();
    CopyRank mine(rank, ranks, comm);  // its memory is freed when no rank waits any more: that waits for the GPU
    meet();
    body(mine);
    const tuttiResult_t ended = tuttiCommDestroy(comm);
    EXPECT_EQ(ended, at_the_end.value_or(ended)) << "rank " << rank << ": " << tuttiGetLastError();
  });
}

class DeviceCopies : public testing::TestWithParam<bool> {};
std::string name_of_case(const testing::TestParamInfo<bool>& gathers) {
  return gathers.param ? "AllGather" : "AllToAll";
}
INSTANTIATE_TEST_SUITE_P(Calls, DeviceCopies, testing::Bool(), name_of_case);

void expect_no_kernel(int ranks, bool gathers) {
  const uint64_t before = kernels_run();
  each_rank(ranks, [&](const CopyRank& mine) {
    for (int turn = 0; turn < 5; ++turn) {
      mine.fill(turn, gathers);
      mine.must_call(gathers);
      mine.stream.synchronize();
      mine.expect(turn, gathers);
    }
  });
  EXPECT_EQ(kernels_run(), before);
}
TEST_P(DeviceCopies, OfTwoRanksRunNoKernel) { expect_no_kernel(2, GetParam()); }
TEST_P(DeviceCopies, OfFourRanksRunNoKernel) { expect_no_kernel(4, GetParam()); }

/// Leaving does not count copies; so who has left is not early, whatever calls of other kinds follow.
TEST(CopiesAndHostCalls, ARankThatHasLeftIsNotEarly) {
  each_rank(3, [](const CopyRank& mine) {
    mine.must_call(true);
    mine.stream.synchronize();
    if (mine.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 1 leaves meanwhile
    const float one = 1;
    float sum = 0;
    EXPECT_EQ(tuttiReduce(&one, &sum, 1, tuttiFloat32, tuttiSum, 0, mine.comm, nullptr), tuttiSuccess)
        << tuttiGetLastError();
  });
}

/// The first call is captured: what it needs is made while the stream is captured.
TEST_P(DeviceCopies, AreRightInAThousandReplays) {
  const uint64_t before = kernels_run();
  each_rank(3, [](const CopyRank& mine) {
    const Graph graph(mine.stream, [&] { mine.must_call(GetParam()); });
    meet();
    for (int turn = 0; turn < 10; ++turn) {
      mine.fill(turn, GetParam());
      for (int i = 0; i < 100; ++i) graph.launch(mine.stream);
      mine.stream.synchronize();
      mine.expect(turn, GetParam());
    }
  });
  EXPECT_EQ(kernels_run(), before);
}

TEST_P(DeviceCopies, OneRankReplaysWhileAnotherCalls) {
  each_rank(2, [](const CopyRank& mine) {
    constexpr int kCalls = 20;
    mine.fill(1, GetParam());
    if (mine.rank == 0) {
      const Graph graph(mine.stream, [&] { mine.must_call(GetParam()); });
      meet();
      for (int i = 0; i < kCalls; ++i) graph.launch(mine.stream);
      mine.stream.synchronize();
    } else {
      meet();
      for (int i = 0; i < kCalls; ++i) mine.must_call(GetParam());
      mine.stream.synchronize();
    }
    mine.expect(1, GetParam());
  });
}

/// Each call reads what the one before has written, on another stream: kernels' sums of the blocks that copies brought.
TEST_P(DeviceCopies, AreOrderedWithKernels) {
  each_rank(3, [](const CopyRank& mine) {
    const GpuStream other;
    mine.fill(0, GetParam());
    for (int turn = 0; turn < 4; ++turn) {
      mine.must_call(GetParam());
      EXPECT_EQ(tuttiAllReduce(mine.blocks.out(), mine.blocks.in(), kCount * 3, tuttiFloat32, tuttiSum, mine.comm,
                               other.handle()),
                tuttiSuccess)
          << tuttiGetLastError();
    }
    other.synchronize();
    std::vector<float> last;  // all-gather: 27 times what rank 0 had; all-to-all: 3 times the sum of all blocks
    for (size_t i = 0; i < 3 * kCount; ++i) {
      const auto of_block = static_cast<float>(i % kCount);
      last.push_back(GetParam() ? 27 * of_block : 3 * (9 * of_block + 99));
    }
    EXPECT_EQ(mine.blocks.received(other), last);
  });
}

/// Slots are parted in another way by each collective.
TEST(CopiesOfBothKinds, FollowEachOther) {
  each_rank(4, [](const CopyRank& mine) {
    const Blocks second(mine.rank, mine.ranks);
    meet();
    for (int turn = 0; turn < 20; ++turn) {
      mine.fill(turn, true);
      second.fill(turn, false, mine.stream);
      mine.must_call(true);
      ASSERT_EQ(second.call(false, kCount, mine.comm, mine.stream), tuttiSuccess) << tuttiGetLastError();
      mine.stream.synchronize();
      mine.expect(turn, true);
      second.expect(turn, false, mine.stream);
    }
  });
}

TEST_P(DeviceCopies, AMismatchNamesBothCalls) {
  each_rank(
      2,
      [](const CopyRank& mine) {
        EXPECT_EQ(mine.call(GetParam(), mine.rank == 0 ? 8 : 16), tuttiSuccess);
        mine.stream.synchronize();
        const std::string text = failure_of(mine.comm, tuttiMismatch);
        expect_contains(text, "(count=8, f32)");
        expect_contains(text, "(count=16, f32)");
        EXPECT_EQ(mine.call(GetParam()), tuttiMismatch);
      },
      tuttiMismatch);
}

/// Replays are on no call board: the tag alone tells that they differ.
TEST_P(DeviceCopies, AMismatchOfReplaysIsFound) {
  each_rank(
      2,
      [](const CopyRank& mine) {
        mine.fill(1, GetParam());
        const Graph right(mine.stream, [&] { mine.must_call(GetParam()); });
        const Graph wrong(mine.stream, [&] { mine.must_call(!GetParam()); });
        meet();
        right.launch(mine.stream);
        mine.stream.synchronize();
        mine.expect(1, GetParam());
        (mine.rank == 0 ? right : wrong).launch(mine.stream);
        mine.stream.synchronize();
        expect_contains(failure_of(mine.comm, tuttiMismatch), "received a message of another call from rank");
      },
      tuttiMismatch);
}

TEST_P(DeviceCopies, AKernelsCallIsAnotherCall) {
  each_rank(
      2,
      [](const CopyRank& mine) {
        if (mine.rank == 0) {
          EXPECT_EQ(mine.call(GetParam()), tuttiSuccess);
        } else {
          EXPECT_EQ(tuttiAllReduce(mine.blocks.in(), mine.blocks.out(), kCount, tuttiFloat32, tuttiSum, mine.comm,
                                   mine.stream.handle()),
                    tuttiSuccess);
        }
        mine.stream.synchronize();
        const std::string text = failure_of(mine.comm, tuttiMismatch);
        expect_contains(text, "all_reduce(count=3001, f32, sum)");
        expect_contains(text, GetParam() ? "all_gather(count=3001, f32)" : "all_to_all(count=3001, f32)");
      },
      tuttiMismatch);
}

TEST_P(DeviceCopies, AbortEndsTheWait) {
  each_rank(
      3,
      [](const CopyRank& mine) {
        if (mine.rank == 0) {
          for (int i = 0; i < 3; ++i) EXPECT_EQ(mine.call(GetParam()), tuttiSuccess);  // the others never come
          std::thread([&] { EXPECT_EQ(tuttiCommAbort(mine.comm), tuttiSuccess); }).join();
          mine.stream.synchronize();
        }
        failure_of(mine.comm, tuttiAborted);
      },
      tuttiAborted);
}

TEST_P(DeviceCopies, ARankThatLeavesEarlyIsAMismatch) {
  each_rank(
      2,
      [](const CopyRank& mine) {
        if (mine.rank == 1) return;
        EXPECT_EQ(mine.call(GetParam()), tuttiSuccess);
        mine.stream.synchronize();
        expect_contains(failure_of(mine.comm, tuttiMismatch), "rank 1 called destroy()");
      },
      std::nullopt);
}

/// A replay after the communicator's end waits for nobody.
TEST_P(DeviceCopies, OfAGraphThatOutlivesItsCommunicatorEnd) {
  std::vector<std::unique_ptr<Graph>> graphs(2);
  std::vector<std::unique_ptr<GpuStream>> streams(2);
  std::vector<std::unique_ptr<GpuBuffer>> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    use_gpu(0);
    streams[static_cast<size_t>(rank)] = std::make_unique<GpuStream>();
    buffers.push_back(std::make_unique<GpuBuffer>(kCount * 8));
    buffers.push_back(std::make_unique<GpuBuffer>(kCount * 8));
  }
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const auto i = static_cast<size_t>(rank);
    const auto* const in = buffers[2 * i]->get();
    auto* const out = buffers[2 * i + 1]->get();
    graphs[i] = std::make_unique<Graph>(*streams[i], [&] {
      EXPECT_EQ(GetParam() ? tuttiAllGather(in, out, kCount, tuttiFloat32, comm, streams[i]->handle())
                           : tuttiAllToAll(in, out, kCount, tuttiFloat32, comm, streams[i]->handle()),
                tuttiSuccess);
    });
    meet();
    graphs[i]->launch(*streams[i]);
    streams[i]->synchronize();
  });
  for (int turn = 0; turn < 3; ++turn) graphs[0]->launch(*streams[0]);  // the other rank launches nothing
  streams[0]->synchronize();
}

TEST_P(DeviceCopies, AWaitThatIsTooLongNamesThePeerAndTheStep) {
  use_gpu(0);
  const std::array<tuttiComm_t, 2> comms = impatient_ranks();
  {
    const CopyRank mine(0, 2, comms[0]);
    mine.must_call(GetParam());
    mine.stream.synchronize();
    const std::string text = failure_of(comms[0], tuttiTimeout);
    expect_contains(text, "rank 0 waited");
    expect_contains(text, "for rank 1 (a message) at lane 0, step");
  }
  for (tuttiComm_t comm : comms) tuttiCommDestroy(comm);
}

}  // namespace
}  // namespace tutti
