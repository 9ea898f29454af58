// Mistakes in calls on device memory: refused before anything is launched, so the communicator remains usable.
#include <dlfcn.h>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kBytes = 4096;

/// One rank on device 0; each test makes one mistake, and then a right call.
class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    use_gpu(0);
    ASSERT_EQ(tuttiCommInitAll(&comm_, 1), tuttiSuccess) << tuttiGetLastError();
    in_.emplace(kBytes);
    out_.emplace(kBytes);
    stream_.emplace();
    launched_before_ += launches();
  }
  void TearDown() override {
    GpuBuffer in(kBytes), out(kBytes);
    const GpuStream stream;
    EXPECT_EQ(call(in.get(), out.get(), 8, stream.handle()), tuttiSuccess) << tuttiGetLastError();
    stream.synchronize();
    EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << tuttiGetLastError();
  }

  tuttiResult_t call(const void* in, void* out, size_t count, tuttiStream_t stream) const {
    return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm_, stream);
  }
  void refused(tuttiResult_t result, const std::string& why, tuttiResult_t expected = tuttiInvalidArgument) const {
    EXPECT_EQ(result, expected);
    expect_contains(tuttiGetLastError(), "rank 0: all_reduce(count=");
    expect_contains(tuttiGetLastError(), why);
    EXPECT_EQ(launches(), 0U) << "it was launched";
  }
  /// Of kernels, so far. With a real driver nobody counts.
  static uint64_t launches() {
    const auto calls_of = reinterpret_cast<uint64_t (*)(const char*)>(::dlsym(RTLD_DEFAULT, "fake_cuda_calls"));
    return calls_of == nullptr ? 0 : calls_of("cuLaunchKernel") - launched_before_;
  }

  static inline uint64_t launched_before_ = 0;
  tuttiComm_t comm_ = nullptr;
  std::optional<GpuBuffer> in_, out_;
  std::optional<GpuStream> stream_;
};

TEST_F(Refusals, APointerOfAnotherDevice) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  use_gpu(1);
  const GpuBuffer other(kBytes);
  use_gpu(0);
  refused(call(other.get(), out_->get(), 8, stream_->handle()), "lies on device 1, but this rank uses GPU 0");
}

TEST_F(Refusals, AFreedPointer) {
  unsigned char* const freed = in_->get();
  in_->free();
  refused(call(freed, out_->get(), 8, stream_->handle()), "is not device memory, or was freed");
  EXPECT_EQ(call(freed, out_->get(), 8, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(launches(), 0U);
}

TEST_F(Refusals, MoreThanTheAllocationHas) {
  refused(call(in_->get(), in_->get(), kBytes / 4 + 1, stream_->handle()), "its allocation ends after 4096");
}

TEST_F(Refusals, AMisalignedPointer) {
  refused(call(in_->get() + 2, out_->get(), 8, stream_->handle()), "is not aligned to its elements of 4 bytes");
}

TEST_F(Refusals, HostMemoryBesideDeviceMemory) {
  std::vector<float> host(8);
  EXPECT_EQ(call(host.data(), out_->get(), 8, nullptr), tuttiInvalidArgument);
  expect_contains(tuttiGetLastError(), "the input lies in memory of the host and the output in memory of cuda");
  EXPECT_EQ(launches(), 0U);
}

TEST_F(Refusals, AStreamOfAnotherDevice) {
  if (count_gpus() < 2) GTEST_SKIP() << "it takes two GPUs";
  use_gpu(1);
  const GpuStream other;
  use_gpu(0);
  refused(call(in_->get(), out_->get(), 8, other.handle()), "the stream is not one of GPU 0");
}

TEST_F(Refusals, ADestroyedStream) {
  const tuttiStream_t gone = stream_->handle();
  stream_->destroy();
  refused(call(in_->get(), out_->get(), 8, gone), "the stream is not a stream of CUDA, or was destroyed");
}

TEST_F(Refusals, ASpoiltCapture) {
  ASSERT_EQ(cuStreamBeginCapture(stream_->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  EXPECT_NE(cuStreamSynchronize(stream_->get()), CUDA_SUCCESS);  // illegal while it is captured
  refused(call(in_->get(), out_->get(), 8, stream_->handle()), "capture was invalidated", tuttiInvalidUsage);
  CUgraph graph = nullptr;
  cuStreamEndCapture(stream_->get(), &graph);
}

TEST(DeviceMemory, IsRefusedWhereARankHasNoDevice) {
  use_gpu(0);
  GpuBuffer in(kBytes), out(kBytes);
  tuttiComm_t with = nullptr, without = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&with, 1), tuttiSuccess);
  std::thread([&] { ASSERT_EQ(tuttiCommInitAll(&without, 1), tuttiSuccess); }).join();  // uses no device
  EXPECT_EQ(tuttiAllReduce(in.get(), out.get(), 8, tuttiFloat32, tuttiSum, without, nullptr), tuttiUnsupported);
  expect_contains(tuttiGetLastError(), "rank 0 cannot make them: no GPU was current");
  EXPECT_EQ(tuttiCommDestroy(without), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(with), tuttiSuccess);
}

TEST(DeviceMemory, HostCallsGoOnBesideIt) {
  use_gpu(0);
  with_ranks(2, [](int, tuttiComm_t comm) {
    std::vector<float> in(100, 1), out(100);
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(out[99], 2);
  });
}

}  // namespace
}  // namespace tutti
