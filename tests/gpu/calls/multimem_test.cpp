// All-reduces that the switch between the GPUs folds: called, replayed, mixed with calls that lanes run; and those that
// cannot end well. TUTTI_METHOD=nvls, TUTTI_MAX_BLOCKS=1, a GPU for each rank.
#include <functional>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 60001;  // four rounds of a block

class SwitchRank {
 public:
  SwitchRank(int its_rank, int its_ranks, tuttiComm_t its_comm) : rank(its_rank), ranks(its_ranks), comm(its_comm) {}
  const int rank, ranks;
  const tuttiComm_t comm;
  GpuStream stream;

  /// On the call's own stream: another one may wait, in a hardware queue, behind a stream that waits for a rank.
  void fill(int turn) const {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = element(turn, i);
    EXPECT_EQ(cuMemcpyHtoDAsync(at(in_), values.data(), kCount * 4, stream.get()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(at(out_), 0xFF, kCount * 4, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
  }
  /// What rank r has is its element 0 plus r.
  void expect_sum(int turn) const {
    std::vector<float> got(kCount), expected(kCount);
    EXPECT_EQ(cuMemcpyDtoHAsync(got.data(), at(out_), kCount * 4, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
    for (size_t i = 0; i < kCount; ++i) {
      const auto others = static_cast<float>(ranks * (ranks - 1) / 2);
      expected[i] = static_cast<float>(ranks) * (element(turn, i) - static_cast<float>(rank)) + others;
    }
    EXPECT_EQ(got, expected) << "rank " << rank << ", turn " << turn;
  }
  tuttiResult_t call(size_t count = kCount, tuttiRedOp_t op = tuttiSum) const {
    return tuttiAllReduce(in_.get(), out_.get(), count, tuttiFloat32, op, comm, stream.handle());
  }
  void must_call(tuttiRedOp_t op = tuttiSum) const { EXPECT_EQ(call(kCount, op), tuttiSuccess) << tuttiGetLastError(); }

 private:
  static CUdeviceptr at(const GpuBuffer& buffer) { return reinterpret_cast<CUdeviceptr>(buffer.get()); }
  float element(int turn, size_t i) const { return static_cast<float>(1000 * turn + static_cast<int>(i % 977) + rank); }
  GpuBuffer in_{kCount * 4}, out_{kCount * 4};
};

/// `at_the_end`: of destroying the communicator; none: that may differ.
void each_rank(int ranks, const std::function<void(SwitchRank&)>& body,
               std::optional<tuttiResult_t> at_the_end = tuttiSuccess) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(ranks, [&](int rank) {
    use_gpu(rank);
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&comm, ranks, id, rank), tuttiSuccess) << tuttiGetLastError();
    SwitchRank mine(rank, ranks, comm);  // its memory is freed when no rank waits any more: that waits for the GPU
    meet();
    body(mine);
    const tuttiResult_t ended = tuttiCommDestroy(comm);
    EXPECT_EQ(ended, at_the_end.value_or(ended)) << "rank " << rank << ": " << tuttiGetLastError();
  });
}

std::string delivery_of_last_call(tuttiComm_t comm) {
  tuttiCallInfo info{};
  info.size = sizeof info;
  EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess) << tuttiGetLastError();
  return info.delivery;
}

/// What switches do not fold, lanes do.
TEST(Multimem, IsMixedWithCallsThatLanesRun) {
  each_rank(4, [](const SwitchRank& mine) {
    for (int turn = 0; turn < 5; ++turn) {
      mine.fill(turn);
      mine.must_call(tuttiMax);
      mine.must_call();
      mine.stream.synchronize();
      mine.expect_sum(turn);
    }
    EXPECT_EQ(delivery_of_last_call(mine.comm), "nvls");
    mine.must_call(tuttiMax);
    mine.stream.synchronize();
    EXPECT_NE(delivery_of_last_call(mine.comm), "nvls");
  });
}

/// The first call is captured: what it needs is made while the stream is captured.
TEST(Multimem, IsRightInAThousandReplays) {
  each_rank(3, [](const SwitchRank& mine) {
    const Graph graph(mine.stream, [&] { mine.must_call(); });
    meet();
    for (int turn = 0; turn < 10; ++turn) {
      mine.fill(turn);
      for (int i = 0; i < 100; ++i) graph.launch(mine.stream);
      mine.stream.synchronize();
      mine.expect_sum(turn);
    }
  });
}

TEST(Multimem, OneRankReplaysWhileAnotherCalls) {
  each_rank(2, [](const SwitchRank& mine) {
    constexpr int kCalls = 20;
    mine.fill(1);
    if (mine.rank == 0) {
      const Graph graph(mine.stream, [&] { mine.must_call(); });
      meet();
      for (int i = 0; i < kCalls; ++i) graph.launch(mine.stream);
      mine.stream.synchronize();
    } else {
      meet();
      for (int i = 0; i < kCalls; ++i) mine.must_call();
      mine.stream.synchronize();
    }
    mine.expect_sum(1);
  });
}

/// Slots and signals go on from one call to the next, whatever its rounds were: here 1, 4, 1 and 3.
TEST(Multimem, CallsOfOtherLengthsFollowEachOther) {
  each_rank(3, [](const SwitchRank& mine) {
    const Graph graph(mine.stream, [&] {
      mine.must_call();
      EXPECT_EQ(mine.call(40000), tuttiSuccess);
    });
    meet();
    for (int turn = 0; turn < 20; ++turn) {
      mine.fill(turn);
      EXPECT_EQ(mine.call(9), tuttiSuccess);
      if (turn % 3 == mine.rank) {
        graph.launch(mine.stream);
      } else {
        mine.must_call();
        EXPECT_EQ(mine.call(40000), tuttiSuccess);
      }
      EXPECT_EQ(mine.call(10000), tuttiSuccess);
      mine.stream.synchronize();
      mine.expect_sum(turn);
    }
  });
}

/// A collective of numbers: how many blocks its buffers have, the call, and what is in them, by block and element.
struct AnyBuffer {
  size_t ins, outs;
  std::function<tuttiResult_t(const void*, void*, size_t)> run;
  std::function<int32_t(size_t, size_t)> input, expected;
};
/// Buffers that begin at any element, of blocks of any length: none, less than a pack, not a pack for each rank, a
/// window and a bit; also in place.
void take_any_buffer(const SwitchRank& mine, const AnyBuffer& how) {
  constexpr size_t kMax = 40000, kBeyond = 2;
  const auto rank = static_cast<size_t>(mine.rank);
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{3}, size_t{5}, size_t{9}, size_t{5461}, size_t{16385}, kMax}) {
    for (const size_t shift : {size_t{0}, size_t{1}, size_t{3}}) {  // elements
      const bool in_place = shift == 3;
      const GpuBuffer in((kMax * std::max(how.ins, how.outs) + 8) * 4), out((kMax * how.outs + 8) * 4);
      meet();
      CUdeviceptr from = reinterpret_cast<CUdeviceptr>(in.get()) + 4 * shift;
      CUdeviceptr to = reinterpret_cast<CUdeviceptr>(out.get()) + 8;
      const CUdeviceptr longer = from;
      if (in_place) to = from + (how.outs < how.ins ? rank * count * 4 : 0);
      if (in_place && how.ins < how.outs) from += rank * count * 4;
      std::vector<int32_t> values, got(how.outs * count + kBeyond), expected;
      for (size_t b = 0; b < how.ins; ++b) {
        for (size_t i = 0; i < count; ++i) values.push_back(how.input(b, i));
      }
      for (size_t b = 0; b < how.outs; ++b) {
        for (size_t i = 0; i < count; ++i) expected.push_back(how.expected(b, i));
      }
      const bool behind_is_input = in_place && how.outs < how.ins && rank + 1 < how.ins;
      EXPECT_EQ(cuMemsetD8Async(longer, 0xFF, (std::max(how.ins, how.outs) * count + kBeyond) * 4, mine.stream.get()),
                CUDA_SUCCESS);
      EXPECT_EQ(cuMemsetD8Async(to, 0xFF, got.size() * 4, mine.stream.get()), CUDA_SUCCESS);
      if (!values.empty()) {
        EXPECT_EQ(cuMemcpyHtoDAsync(from, values.data(), values.size() * 4, mine.stream.get()), CUDA_SUCCESS);
      }
      EXPECT_EQ(how.run(reinterpret_cast<void*>(from), reinterpret_cast<void*>(to), count), tuttiSuccess)
          << tuttiGetLastError();
      EXPECT_EQ(delivery_of_last_call(mine.comm), "nvls");
      EXPECT_EQ(cuMemcpyDtoHAsync(got.data(), to, got.size() * 4, mine.stream.get()), CUDA_SUCCESS);
      mine.stream.synchronize();
      for (size_t i = 0; i < kBeyond; ++i) {  // what lies behind stays
        const size_t at = how.outs * count + i;
        expected.push_back(behind_is_input && i < count ? how.input(rank + 1, i) : behind_is_input ? got[at] : -1);
      }
      EXPECT_EQ(got, expected) << count << " elements, shifted by " << shift;
      EXPECT_EQ(tuttiBarrier(mine.comm, mine.stream.handle()), tuttiSuccess);  // before memory is freed
      mine.stream.synchronize();
    }
  }
}

/// Of a rank, a block and an element: so that a wrong byte, element, block or rank shows. Sums wrap.
int32_t number(size_t rank, size_t block, size_t i) {
  const size_t all = 1000003 * rank + 10007 * block + i % 4999 + 1;
  return static_cast<int32_t>(static_cast<uint32_t>(all) * 0x9E3779B1U);
}
int32_t sum(size_t ranks, size_t block, size_t i) {
  uint32_t all = 0;
  for (size_t rank = 0; rank < ranks; ++rank) all += static_cast<uint32_t>(number(rank, block, i));
  return static_cast<int32_t>(all);
}

TEST(Multimem, AllReducesTakeAnyBufferOfAnyLength) {
  each_rank(3, [](const SwitchRank& mine) {
    const auto rank = static_cast<size_t>(mine.rank);
    take_any_buffer(mine, {1, 1,
                           [&](const void* in, void* out, size_t count) {
                             return tuttiAllReduce(in, out, count, tuttiInt32, tuttiSum, mine.comm,
                                                   mine.stream.handle());
                           },
                           [&](size_t block, size_t i) { return number(rank, block, i); },
                           [&](size_t block, size_t i) { return sum(3, block, i); }});
  });
}

TEST(Multimem, ReduceScattersTakeAnyBufferOfAnyLength) {
  each_rank(3, [](const SwitchRank& mine) {
    const auto rank = static_cast<size_t>(mine.rank);
    take_any_buffer(mine, {3, 1,
                           [&](const void* in, void* out, size_t count) {
                             return tuttiReduceScatter(in, out, count, tuttiInt32, tuttiSum, mine.comm,
                                                       mine.stream.handle());
                           },
                           [&](size_t block, size_t i) { return number(rank, block, i); },
                           [&](size_t, size_t i) { return sum(3, rank, i); }});
  });
}

TEST(Multimem, AllGathersTakeAnyBufferOfAnyLength) {
  each_rank(3, [](const SwitchRank& mine) {
    const auto rank = static_cast<size_t>(mine.rank);
    take_any_buffer(mine, {1, 3,
                           [&](const void* in, void* out, size_t count) {
                             return tuttiAllGather(in, out, count, tuttiInt32, mine.comm, mine.stream.handle());
                           },
                           [&](size_t, size_t i) { return number(rank, 0, i); },
                           [&](size_t block, size_t i) { return number(block, 0, i); }});
  });
}

TEST(Multimem, AMismatchNamesBothCalls) {
  each_rank(
      2,
      [](const SwitchRank& mine) {
        EXPECT_EQ(mine.call(mine.rank == 0 ? 8 : 16), tuttiSuccess);
        mine.stream.synchronize();
        const std::string text = failure_of(mine.comm, tuttiMismatch);
        expect_contains(text, "(count=8, f32, sum)");
        expect_contains(text, "(count=16, f32, sum)");
        EXPECT_EQ(mine.call(), tuttiMismatch);
      },
      tuttiMismatch);
}

/// Replays are on no call board: the tag alone tells that they differ.
TEST(Multimem, AMismatchOfReplaysIsFound) {
  each_rank(
      3,
      [](const SwitchRank& mine) {
        mine.fill(1);
        const Graph right(mine.stream, [&] { mine.must_call(); });
        const Graph wrong(mine.stream, [&] { EXPECT_EQ(mine.call(kCount - 1), tuttiSuccess); });
        meet();
        right.launch(mine.stream);
        mine.stream.synchronize();
        mine.expect_sum(1);
        (mine.rank == 1 ? wrong : right).launch(mine.stream);
        mine.stream.synchronize();
        expect_contains(failure_of(mine.comm, tuttiMismatch), "received a message of another call from rank");
      },
      tuttiMismatch);
}

/// Which lanes run: no signal ever comes.
TEST(Multimem, AnotherCollectiveIsAMismatch) {
  each_rank(
      2,
      [](const SwitchRank& mine) {
        EXPECT_EQ(mine.call(kCount, mine.rank == 0 ? tuttiSum : tuttiMax), tuttiSuccess);
        mine.stream.synchronize();
        const std::string text = failure_of(mine.comm, tuttiMismatch);
        expect_contains(text, "f32, sum)");
        expect_contains(text, "f32, max)");
      },
      tuttiMismatch);
}

TEST(Multimem, AbortEndsTheWait) {
  each_rank(
      3,
      [](const SwitchRank& mine) {
        if (mine.rank == 0) {
          for (int i = 0; i < 3; ++i) EXPECT_EQ(mine.call(), tuttiSuccess);  // the others never come
          std::thread([&] { EXPECT_EQ(tuttiCommAbort(mine.comm), tuttiSuccess); }).join();
          mine.stream.synchronize();
        }
        failure_of(mine.comm, tuttiAborted);
      },
      tuttiAborted);
}

TEST(Multimem, ARankThatLeavesEarlyIsAMismatch) {
  each_rank(
      2,
      [](const SwitchRank& mine) {
        if (mine.rank == 1) return;
        EXPECT_EQ(mine.call(), tuttiSuccess);
        mine.stream.synchronize();
        expect_contains(failure_of(mine.comm, tuttiMismatch), "rank 1 called destroy()");
      },
      std::nullopt);
}

TEST(Multimem, AWaitThatIsTooLongNamesThePeerAndTheStep) {
  std::array<tuttiComm_t, 2> comms{};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout = 2;  // they meet within it, too
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    use_gpu(rank);
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config), tuttiSuccess)
        << tuttiGetLastError();
  });
  use_gpu(0);
  {
    const SwitchRank mine(0, 2, comms[0]);
    mine.must_call();
    mine.stream.synchronize();
    const std::string text = failure_of(comms[0], tuttiTimeout);
    expect_contains(text, "rank 0 waited");
    expect_contains(text, "for rank 1 (a message) at lane 0, step 1");
  }
  for (tuttiComm_t comm : comms) tuttiCommDestroy(comm);
}

/// A replay after the communicator's end waits for nobody, and touches no memory that is gone.
TEST(Multimem, AGraphThatOutlivesItsCommunicatorEnds) {
  use_gpu(0);
  const GpuStream stream;
  const GpuBuffer in(4096), out(4096);
  std::optional<Graph> graph;
  each_rank(2, [&](const SwitchRank& mine) {
    const auto call = [&](const GpuStream& on) {
      EXPECT_EQ(tuttiAllReduce(in.get(), out.get(), 1024, tuttiFloat32, tuttiSum, mine.comm, on.handle()), tuttiSuccess)
          << tuttiGetLastError();
    };
    if (mine.rank == 0) {
      graph.emplace(stream, [&] { call(stream); });
      meet();
      graph->launch(stream);
      stream.synchronize();
    } else {
      meet();
      EXPECT_EQ(mine.call(1024), tuttiSuccess);
      mine.stream.synchronize();
    }
  });
  for (int turn = 0; turn < 3; ++turn) graph->launch(stream);
  stream.synchronize();
}

/// The ranks of a part have memory of their own.
TEST(Multimem, OfASplitCommunicatorIsItsOwn) {
  each_rank(4, [](const SwitchRank& mine) {
    tuttiComm_t half = nullptr;
    ASSERT_EQ(tuttiCommSplit(mine.comm, mine.rank / 2, mine.rank, &half), tuttiSuccess) << tuttiGetLastError();
    const SwitchRank part(mine.rank % 2, 2, half);
    meet();
    for (int turn = 0; turn < 3; ++turn) {
      mine.fill(turn);
      part.fill(turn);
      part.must_call();
      part.stream.synchronize();
      mine.must_call();
      mine.stream.synchronize();
      part.expect_sum(turn);
      mine.expect_sum(turn);
    }
    EXPECT_EQ(tuttiCommDestroy(half), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti
