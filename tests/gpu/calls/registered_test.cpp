// Buffers of GPUs that ranks have registered (tuttiCommRegister), each alone, between processes on two GPUs with
// TUTTI_METHOD=get: peers read them where they lie, as long as they are what was registered. Each test runs alone, as a
// job of two ranks: `tutti run -n 2 -- tutti_gpu_registered_tests --gtest_filter=Registered.…`.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kPiece = MappedMemory::kPiece;
constexpr size_t kCount = 300000;

class Registered : public testing::Test {
 protected:
  Registered() {
    rank_ = std::atoi(std::getenv("TUTTI_RANK"));
    use_gpu(rank_);
    stream_.emplace();
    EXPECT_EQ(tuttiCommInitEnv(&comm_), tuttiSuccess) << tuttiGetLastError();
  }
  ~Registered() override { EXPECT_EQ(tuttiCommDestroy(comm_), at_the_end_) << tuttiGetLastError(); }

  void set(float* to, float value, size_t count = kCount) const {
    const std::vector<float> values(count, value);
    cuda::Device::get(rank_).stream().upload(reinterpret_cast<CUdeviceptr>(to), values.data(), count * 4);
  }
  std::vector<float> get(const float* from, size_t count = kCount) const {
    std::vector<float> values(count);
    cuda::Device::get(rank_).stream().download(values.data(), reinterpret_cast<CUdeviceptr>(from), count * 4);
    return values;
  }
  /// Until all ranks are here. The stand-in maps memory only when no kernel runs, so a rank must not be ahead.
  void meet() const {
    int one = 1, sum = 0;
    ASSERT_TUTTI(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm_, nullptr));
  }
  /// An all-reduce of `value` + rank; how it was delivered.
  std::string all_reduce(float* in, float* out, float value) {
    meet();
    set(in, value + static_cast<float>(rank_));
    set(out, -1);
    EXPECT_EQ(tuttiAllReduce(in, out, kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()), tuttiSuccess)
        << tuttiGetLastError();
    stream_->synchronize();
    EXPECT_EQ(get(out), std::vector<float>(kCount, 2 * value + 1));
    tuttiCallInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(tuttiCommGetLastCall(comm_, &info), tuttiSuccess);
    EXPECT_STREQ(info.method, "get");
    return info.delivery;
  }
  std::string all_reduce(const GpuBuffer& in, const GpuBuffer& out, float value) {
    return all_reduce(reinterpret_cast<float*>(in.get()), reinterpret_cast<float*>(out.get()), value);
  }

  int rank_ = 0;
  std::optional<GpuStream> stream_;
  tuttiComm_t comm_ = nullptr;
  tuttiResult_t at_the_end_ = tuttiSuccess;
};

TEST_F(Registered, BuffersAreReadInPlaceUntilTheyAreDeregistered) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  EXPECT_EQ(all_reduce(in, out, 1), "staged");
  uint64_t inputs = 0, outputs = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &inputs));
  ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &outputs));
  EXPECT_NE(inputs, 0U);
  EXPECT_NE(outputs, inputs);
  EXPECT_EQ(all_reduce(in, out, 2), "mapped");
  // In place: the input is overwritten, so what others read is a copy.
  set(reinterpret_cast<float*>(out.get()), 5);
  ASSERT_TUTTI(tuttiAllReduce(out.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  stream_->synchronize();
  EXPECT_EQ(get(reinterpret_cast<float*>(out.get())), std::vector<float>(kCount, 10));
  ASSERT_TUTTI(tuttiCommDeregister(comm_, inputs));
  ASSERT_TUTTI(tuttiCommDeregister(comm_, outputs));
  EXPECT_EQ(all_reduce(in, out, 3), "staged");
  EXPECT_EQ(tuttiCommDeregister(comm_, outputs), tuttiInvalidArgument);
  expect_contains(tuttiGetLastError(), "is not one of this communicator, or has ended");
}

/// The peer's own thread maps the buffer: the user's waits for what this rank sends afterwards.
TEST_F(Registered, OneRankRegistersAlone) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  char word = 0;
  if (rank_ == 0) {
    uint64_t inputs = 0, outputs = 0;
    ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &inputs));
    ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &outputs));
    EXPECT_NE(inputs, 0U);
    ASSERT_TUTTI(tuttiSend(&word, 1, tuttiUint8, 1, comm_, nullptr));
  } else {
    ASSERT_TUTTI(tuttiRecv(&word, 1, tuttiUint8, 0, comm_, nullptr));
  }
  EXPECT_EQ(all_reduce(in, out, 4), rank_ == 0 ? "mapped" : "staged");
}

/// Of one rank only: the other's messages are staged, in the same call.
TEST_F(Registered, OneRankDeregistersAlone) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t inputs = 0, outputs = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &inputs));
  ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &outputs));
  if (rank_ == 1) {
    ASSERT_TUTTI(tuttiCommDeregister(comm_, inputs));
    ASSERT_TUTTI(tuttiCommDeregister(comm_, outputs));
  }
  EXPECT_EQ(all_reduce(in, out, 4), rank_ == 0 ? "mapped" : "staged");
}

/// Other memory at the same address is not what peers have mapped.
TEST_F(Registered, MemoryThatWasFreedIsNotRead) {
  auto in = std::make_unique<GpuBuffer>(kCount * 4);
  const GpuBuffer out(kCount * 4);
  uint64_t inputs = 0, again = 0;  // twice, as two tensors of one allocation
  ASSERT_TUTTI(tuttiCommRegister(comm_, in->get(), kCount * 4, &inputs));
  ASSERT_TUTTI(tuttiCommRegister(comm_, in->get() + 1024, 4096, &again));
  all_reduce(*in, out, 5);
  const unsigned char* const before = in->get();
  for (int i = 0; i < 20; ++i) {
    in.reset();
    in = std::make_unique<GpuBuffer>(kCount * 4);
    EXPECT_EQ(all_reduce(*in, out, 6), "staged");
    if (in->get() == before) break;
  }
  EXPECT_EQ(in->get(), before) << "the stand-in gave other addresses: nothing was tested";
}

/// As PyTorch's expandable segments, where they have descriptors.
TEST_F(Registered, ABufferOfSeveralHandlesIsOneBuffer) {
  const MappedMemory all(rank_, 3, true);
  float* const in = all.floats(kPiece / 4 - kCount / 2);   // from the first piece to the second, …
  float* const out = all.floats(kPiece / 2 - kCount / 2);  // … and from that to the third
  uint64_t registration = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, all.floats(), all.bytes(), &registration));
  EXPECT_EQ(all_reduce(in, out, 7), "mapped");
}

TEST_F(Registered, APieceThatWasFreedIsNotRead) {
  const MappedMemory all(rank_, 3, true);
  float* const in = all.floats(kPiece / 4 - kCount / 2);
  float* const out = all.floats(kPiece / 2 - kCount / 2);
  uint64_t registration = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, all.floats(), all.bytes(), &registration));
  EXPECT_EQ(all_reduce(in, out, 12), "mapped");
  all.replace(1);
  EXPECT_EQ(all_reduce(in, out, 13), "staged");
}

TEST_F(Registered, WhatCannotBeGivenAwayIsRefused) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  const MappedMemory mine(rank_, 1, rank_ == 0);
  uint64_t registration = 1;
  EXPECT_EQ(tuttiCommRegister(comm_, mine.floats(), mine.bytes(), &registration),
            rank_ == 0 ? tuttiSuccess : tuttiUnsupported);
  if (rank_ == 1) {
    expect_contains(tuttiGetLastError(), "rank 1: register(): the buffer cannot be given to other processes");
    expect_contains(tuttiGetLastError(), "made without descriptors");
  }
  EXPECT_EQ(registration != 0, rank_ == 0);
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, 4000, stream_->get()), CUDA_SUCCESS);
  EXPECT_EQ(tuttiCommRegister(comm_, reinterpret_cast<void*>(pooled), 4000, &registration), tuttiUnsupported);
  expect_contains(tuttiGetLastError(), "the buffer's memory is neither allocated (cudaMalloc) nor mapped (cuMemMap)");
  EXPECT_EQ(all_reduce(in, out, 8), "staged");
}

TEST_F(Registered, BadArgumentsAreRefusedByTheRankAlone) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t registration = 1;
  EXPECT_EQ(tuttiCommRegister(comm_, nullptr, 8, &registration), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), 0, &registration), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), 8, nullptr), tuttiInvalidArgument);
  ASSERT_TUTTI(tuttiCommDeregister(comm_, 0));
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), SIZE_MAX, &registration), tuttiInvalidArgument);
  EXPECT_EQ(all_reduce(in, out, 9), "staged");
}

/// As nccl-tests do it. They are made at once.
TEST_F(Registered, AGroupOfRegistrations) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t registrations[2] = {};
  ASSERT_TUTTI(tuttiGroupStart());
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registrations[0]));
  ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &registrations[1]));
  EXPECT_NE(registrations[0], 0U);
  EXPECT_NE(registrations[1], 0U);
  ASSERT_TUTTI(tuttiGroupEnd());
  EXPECT_EQ(all_reduce(in, out, 10), "mapped");
  ASSERT_TUTTI(tuttiGroupStart());
  for (const uint64_t one : registrations) ASSERT_TUTTI(tuttiCommDeregister(comm_, one));
  ASSERT_TUTTI(tuttiGroupEnd());
  EXPECT_EQ(all_reduce(in, out, 11), "staged");
}

/// On memory that is not the GPU's there is nothing to gain.
TEST_F(Registered, HostMemoryIsNotThatOfAGpu) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  const std::vector<float> host(1000);
  uint64_t registration = 1;
  ASSERT_TUTTI(tuttiCommRegister(comm_, host.data(), 4000, &registration));
  EXPECT_EQ(registration, 0U);
  EXPECT_EQ(all_reduce(in, out, 14), "staged");
}

/// Where peers would map its buffer. The death may be known before the call is made: then the text names no call.
TEST_F(Registered, APeerThatDiesInsteadOfRegisteringIsNamed) {
  const GpuBuffer in(kCount * 4);
  uint64_t registration = 0;
  if (rank_ == 1) std::raise(SIGKILL);
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration), tuttiPeerFailed);
  expect_contains(tuttiGetLastError(), "rank 1 (process");
  at_the_end_ = tuttiPeerFailed;
}

/// Its GPU has mapped this rank's memory, and this one's its own.
TEST_F(Registered, APeerThatHasMappedAndDiesIsNamed) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t inputs = 0, outputs = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &inputs));
  ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &outputs));
  EXPECT_EQ(all_reduce(in, out, 15), "mapped");
  if (rank_ == 1) std::raise(SIGKILL);
  tuttiAllReduce(in.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle());
  stream_->synchronize();
  tuttiResult_t result = tuttiSuccess;
  while (tuttiCommGetAsyncError(comm_, &result) == tuttiSuccess && result == tuttiSuccess) std::this_thread::yield();
  EXPECT_EQ(result, tuttiPeerFailed);
  expect_contains(tuttiCommGetErrorText(comm_), "rank 1 (process");
  at_the_end_ = tuttiPeerFailed;
}

/// Letting go of memory waits for kernels on some drivers, and this one waits for the rank that is told afterwards.
TEST_F(Registered, DeregisteringWaitsForNoKernel) {
  const MappedMemory all(rank_, 2, true);
  float* const in = all.floats();
  float* const out = all.floats(kPiece / 4);
  uint64_t registration = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, all.floats(), all.bytes(), &registration));
  set(in, 1);
  char word = 0;
  if (rank_ == 1) {
    ASSERT_TUTTI(tuttiRecv(&word, 1, tuttiUint8, 0, comm_, nullptr));
  }
  ASSERT_TUTTI(tuttiAllReduce(in, out, kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  ASSERT_TUTTI(tuttiCommDeregister(comm_, registration));
  if (rank_ == 0) {
    ASSERT_TUTTI(tuttiSend(&word, 1, tuttiUint8, 1, comm_, nullptr));
  }
  stream_->synchronize();
  EXPECT_EQ(get(out), std::vector<float>(kCount, 2));
}

/// Threads read each other's memory at its address, which its owner has opened to all GPUs of the process.
TEST(RegisteredByThreads, MappedMemoryIsReadInPlace) {
  tuttiUniqueId id;
  ASSERT_TUTTI(tuttiGetUniqueId(&id));
  run_ranks(2, [&](int rank) {
    use_gpu(rank);
    const MappedMemory mine(rank, 2, true);
    const GpuStream stream;
    tuttiComm_t comm = nullptr;
    ASSERT_TUTTI(tuttiCommInitRank(&comm, 2, id, rank));
    const auto& own = cuda::Device::get(rank).stream();
    const std::vector<float> values(kCount, static_cast<float>(rank + 1));
    own.upload(reinterpret_cast<CUdeviceptr>(mine.floats()), values.data(), kCount * 4);
    uint64_t registration = 0;
    ASSERT_TUTTI(tuttiCommRegister(comm, mine.floats(), mine.bytes(), &registration));
    int one = 1, sum = 0;  // the stand-in opens memory to other GPUs only when no kernel of the process runs
    ASSERT_TUTTI(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr));
    ASSERT_TUTTI(
        tuttiAllReduce(mine.floats(), mine.floats(kPiece / 4), kCount, tuttiFloat32, tuttiSum, comm, stream.handle()));
    stream.synchronize();
    tuttiCallInfo info{};
    info.size = sizeof info;
    ASSERT_TUTTI(tuttiCommGetLastCall(comm, &info));
    EXPECT_STREQ(info.delivery, "mapped");
    std::vector<float> sums(kCount);
    own.download(sums.data(), reinterpret_cast<CUdeviceptr>(mine.floats(kPiece / 4)), kCount * 4);
    EXPECT_EQ(sums, std::vector<float>(kCount, 3));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  });
}

/// With a stand-in that gives no handles of allocations on GPU 1.
using RegisteredWithoutHandles = Registered;
TEST_F(RegisteredWithoutHandles, TheDriversWordsAreHeard) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t registration = 1;
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration),
            rank_ == 1 ? tuttiUnsupported : tuttiSuccess);
  if (rank_ == 1) {
    expect_contains(tuttiGetLastError(),
                    "register(): the buffer cannot be given to other processes: CUDA_ERROR_NOT_SUPPORTED");
  }
  EXPECT_EQ(all_reduce(in, out, 16), rank_ == 1 ? "staged" : "mapped+staged");
}

/// A captured call's buffers are registered by themselves, until its graph is gone.
class Captured : public Registered {
 protected:
  std::string replayed(const Graph& graph, const GpuBuffer& in, const GpuBuffer& out) const {
    std::string how = delivery();
    meet();
    for (float value = 1; value < 4; ++value) {
      set(reinterpret_cast<float*>(in.get()), value + static_cast<float>(rank_));
      graph.launch(*stream_);
      stream_->synchronize();
      EXPECT_EQ(get(reinterpret_cast<float*>(out.get())), std::vector<float>(kCount, 2 * value + 1));
    }
    return how;
  }
  void call(const GpuBuffer& in, const GpuBuffer& out) const {
    ASSERT_TUTTI(tuttiAllReduce(in.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  }
  std::string delivery() const {
    tuttiCallInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(tuttiCommGetLastCall(comm_, &info), tuttiSuccess);
    return info.delivery;
  }
};
TEST_F(Captured, BuffersAreReadInPlaceAsLongAsTheGraphLives) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  EXPECT_EQ(all_reduce(in, out, 1), "staged");
  {
    const Graph graph(*stream_, [&] { call(in, out); });
    EXPECT_EQ(replayed(graph, in, out), "mapped");
    EXPECT_EQ(all_reduce(in, out, 2), "mapped");  // calls find them as well
    EXPECT_EQ(replayed(graph, in, out), "mapped");
  }
  std::string last;
  int done = 0;
  for (int i = 0; i < 100 && done == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // graphs do not say when they end
    last = all_reduce(in, out, 3);
    const int mine = last == "staged" ? 1 : 0;  // one rank may hear of its graph's end before the other
    ASSERT_TUTTI(tuttiAllReduce(&mine, &done, 1, tuttiInt32, tuttiMin, comm_, nullptr));
  }
  EXPECT_EQ(last, "staged");
}
TEST_F(Captured, TwoCallsOfOneAllocationRegisterItOnce) {
  const MappedMemory all(rank_, 2, true);
  float* const in = all.floats();
  float* const out = all.floats(kCount / 2);
  set(in, static_cast<float>(rank_ + 1));
  const auto call = [&](float* from, float* to) {
    ASSERT_TUTTI(tuttiAllReduce(from, to, kCount / 2, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  };
  const Graph graph(*stream_, [&] { call(in, out), call(out, in), call(in, out); });
  EXPECT_EQ(delivery(), "mapped");
  meet();
  graph.launch(*stream_);
  stream_->synchronize();
  EXPECT_EQ(get(out, kCount / 2), std::vector<float>(kCount / 2, 12));
  std::vector<std::unique_ptr<GpuBuffer>> others;  // as many as there may be, without the one of the graph
  uint64_t registration = 0;
  do {
    others.push_back(std::make_unique<GpuBuffer>(16));
  } while (tuttiCommRegister(comm_, others.back()->get(), 16, &registration) == tuttiSuccess);
  expect_contains(tuttiGetLastError(), "253 buffers are registered or in use, which is the maximum");
  EXPECT_EQ(others.size(), 253U);
  meet();
}
/// Of pools, which peers cannot map.
TEST_F(Captured, WhatCannotBeGivenAwayIsStaged) {
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, kCount * 4, stream_->get()), CUDA_SUCCESS);
  auto* const data = reinterpret_cast<float*>(pooled);
  set(data, static_cast<float>(rank_ + 1));
  const Graph graph(*stream_, [&] {
    ASSERT_TUTTI(tuttiAllReduce(data, data, kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  });
  graph.launch(*stream_);
  stream_->synchronize();
  EXPECT_EQ(delivery(), "staged");
  EXPECT_EQ(get(data), std::vector<float>(kCount, 3));
}
/// With a driver that does not tell the extent of mapped memory.
using CapturedWithoutExtents = Captured;
TEST_F(CapturedWithoutExtents, BuffersAreStaged) {
  const MappedMemory all(rank_, 1, true);
  set(all.floats(), static_cast<float>(rank_ + 1));
  const Graph graph(*stream_, [&] {
    ASSERT_TUTTI(tuttiAllReduce(all.floats(), all.floats(), kCount, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  });
  EXPECT_EQ(delivery(), "staged");
  graph.launch(*stream_);
  stream_->synchronize();
  EXPECT_EQ(get(all.floats()), std::vector<float>(kCount, 3));
  uint64_t registration = 1;
  EXPECT_EQ(tuttiCommRegister(comm_, all.floats(), 4, &registration), tuttiUnsupported);
  expect_contains(tuttiGetLastError(), "the driver does not tell how long the allocation at byte 0 of the buffer is");
}
/// With TUTTI_GRAPH_REGISTER=0.
using CapturedUnregistered = Captured;
TEST_F(CapturedUnregistered, BuffersAreStaged) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  const Graph graph(*stream_, [&] { call(in, out); });
  EXPECT_EQ(replayed(graph, in, out), "staged");
}

/// A replay is no call that is counted: the graph holds the buffer, for as long as it is there.
TEST_F(Captured, ABufferIsDeregisteredWhileAReplayReadsIt) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t inputs = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &inputs));
  const Graph graph(*stream_, [&] { call(in, out); });
  meet();
  ASSERT_TUTTI(tuttiCommDeregister(comm_, inputs));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which peers would unmap it, if no graph held it
  EXPECT_EQ(replayed(graph, in, out), "inline");                // the last call is that of meet()
}

/// More than there are regions, one after the other: their numbers are used again.
TEST_F(Registered, ManyBuffersAfterEachOther) {
  const GpuBuffer out(kCount * 4);
  for (int i = 0; i < 300; ++i) {
    const GpuBuffer in(kCount * 4);
    uint64_t registration = 0;
    ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration));
    if (i % 30 == 0) {
      EXPECT_NE(all_reduce(in, out, static_cast<float>(i)).find("mapped"), std::string::npos);
    }
    ASSERT_TUTTI(tuttiCommDeregister(comm_, registration));
  }
  meet();
}

}  // namespace
}  // namespace tutti
