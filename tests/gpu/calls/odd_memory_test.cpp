// The kinds of memory and of streams that frameworks use.
#include <memory>

#include "calls/driver_rules.hpp"

/// CUDA 12.4's cuda.h does not have it.
extern "C" CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);

namespace tutti {
namespace {

/// As PyTorch's expandable segments.
TEST_F(DriverRules, ABufferOfSeveralHandlesIsOneBuffer) {
  const MappedMemory in(0, 3), out(0, 3);
  const std::array<const MappedMemory*, 2> buffers{&in, &out};
  each_rank([&](int rank, tuttiComm_t comm, const Own& own) {
    const size_t count = 3 * MappedMemory::kPiece / 4;
    void* const data = buffers[static_cast<size_t>(rank)]->get();
    cuda::Device::get(0).stream().zero(reinterpret_cast<CUdeviceptr>(data), 3 * MappedMemory::kPiece);
    meet();
    ASSERT_TUTTI(tuttiBroadcast(data, data, count, tuttiFloat32, 0, comm, own.stream.handle()));
    EXPECT_EQ(tuttiBroadcast(data, data, count + 1, tuttiFloat32, 0, comm, own.stream.handle()), tuttiInvalidArgument);
    expect_contains(tuttiGetLastError(), "has 6291460 bytes, and its allocation ends after 6291456");
  });
}

TEST_F(DriverRules, ABufferOfAPoolIsABuffer) {
  each_rank([](int, tuttiComm_t comm, const Own& own) {
    CUdeviceptr data = 0;
    ASSERT_EQ(cuMemAllocAsync(&data, 4000, own.stream.get()), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32Async(data, 0x3F800000, 1000, own.stream.get()), CUDA_SUCCESS);
    float* const floats = reinterpret_cast<float*>(data);
    ASSERT_TUTTI(tuttiAllReduce(floats, floats, 1000, tuttiFloat32, tuttiSum, comm, own.stream.handle()));
    ASSERT_EQ(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(own.out.get()), data, 4000, own.stream.get()),
              CUDA_SUCCESS);
    ASSERT_EQ(cuMemFreeAsync(data, own.stream.get()), CUDA_SUCCESS);
    own.stream.synchronize();
    EXPECT_EQ(own.out.floats(1000), std::vector<float>(1000, 2));
  });
}

// ---- streams

class GreenContext {
 public:
  explicit GreenContext(unsigned multiprocessors) {
    CUdevResource all{}, some{};
    unsigned groups = 1;
    CUdevResourceDesc descriptor = nullptr;
    EXPECT_EQ(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    EXPECT_EQ(cuDevSmResourceSplitByCount(&some, &groups, &all, nullptr, 0, multiprocessors), CUDA_SUCCESS);
    EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, &some, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuGreenCtxCreate(&context_, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    EXPECT_EQ(cuGreenCtxStreamCreate(&stream_, context_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }
  tuttiStream_t stream() const { return reinterpret_cast<tuttiStream_t>(stream_); }
  void synchronize() const { EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS); }

 private:
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

/// Calls on streams of a green context and of the primary one follow each other.
TEST_F(DriverRules, AStreamOfAGreenContextRunsCalls) {
  for (auto& own : owns_) own->in.set(std::vector<float>(kCount, 1));
  const std::array<GreenContext, 2> greens{GreenContext(2), GreenContext(2)};
  each_rank([&](int rank, tuttiComm_t comm, const Own& own) {
    const GreenContext& green = greens[static_cast<size_t>(rank)];
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_TUTTI(tuttiAllReduce(own.input(), own.output(), kCount, tuttiFloat32, tuttiSum, comm, green.stream()));
      ASSERT_TUTTI(
          tuttiAllReduce(own.output(), own.output(), kCount, tuttiFloat32, tuttiSum, comm, own.stream.handle()));
    }
    ASSERT_TUTTI(tuttiAllReduce(own.output(), own.output(), 4, tuttiFloat32, tuttiSum, comm, green.stream()));
    green.synchronize();
    own.stream.synchronize();
    EXPECT_EQ(own.out.floats(4), std::vector<float>(4, 8));
    EXPECT_EQ(own.out.floats(kCount).back(), 4);
  });
}

/// With TUTTI_BLOCK_THREADS=512: a multiprocessor runs two such blocks, one for each rank, where a long transfer has
/// eight.
TEST_F(DriverRules, ALongTransferTakesTheBlocksThatAGreenContextRuns) {
  constexpr size_t kLong = 400001;
  const std::array<GreenContext, 2> greens{GreenContext(1), GreenContext(1)};
  std::array<std::unique_ptr<GpuBuffer>, 2> ins, outs;
  for (size_t rank = 0; rank < 2; ++rank) {
    ins[rank] = std::make_unique<GpuBuffer>(kLong * 4);
    outs[rank] = std::make_unique<GpuBuffer>(kLong * 4);
    ins[rank]->set(std::vector<float>(kLong, 7));
  }
  each_rank([&](int rank, tuttiComm_t comm, const Own&) {
    const auto me = static_cast<size_t>(rank);
    ASSERT_TUTTI(tuttiGroupStart());
    EXPECT_EQ(tuttiSend(ins[me]->get(), kLong, tuttiFloat32, 1 - rank, comm, greens[me].stream()), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(outs[me]->get(), kLong, tuttiFloat32, 1 - rank, comm, greens[me].stream()), tuttiSuccess);
    ASSERT_TUTTI(tuttiGroupEnd());
    greens[me].synchronize();
    EXPECT_EQ(outs[me]->floats(kLong), std::vector<float>(kLong, 7));
  });
}

}  // namespace
}  // namespace tutti
