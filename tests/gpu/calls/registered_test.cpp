// Buffers of GPUs that ranks have registered (tuttiCommRegister), between processes on two GPUs with TUTTI_METHOD=get:
// peers read them where they lie, as long as they are what was registered. Each test runs alone, as a job of two ranks:
// `tutti run -n 2 -- tutti_gpu_registered_tests --gtest_filter=Registered.…`.
#include <cstdlib>
#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kHandle = 2 << 20;  // bytes of a piece of mapped memory
constexpr size_t kCount = 300000;

#define ASSERT_TUTTI(call) ASSERT_EQ(call, tuttiSuccess) << tuttiGetLastError()

/// A range of addresses of this rank's GPU, mapped piece by piece.
class Mapped {
 public:
  Mapped(int device, size_t pieces, bool with_descriptors) : bytes_(pieces * kHandle), device_(device) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    if (with_descriptors) properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(cuMemAddressReserve(&at_, bytes_, 0, 0, 0), CUDA_SUCCESS);
    for (size_t i = 0; i < pieces; ++i) map(i);
  }
  void map(size_t piece) const {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kHandle, &properties_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(at_ + piece * kHandle, kHandle, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemSetAccess(at_ + piece * kHandle, kHandle, &access, 1), CUDA_SUCCESS);
  }
  /// Other memory at the same addresses.
  void replace(size_t piece) const {
    EXPECT_EQ(cuMemUnmap(at_ + piece * kHandle, kHandle), CUDA_SUCCESS);
    map(piece);
  }
  ~Mapped() {
    cuMemUnmap(at_, bytes_);
    cuMemAddressFree(at_, bytes_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  float* floats(size_t at = 0) const { return reinterpret_cast<float*>(at_) + at; }
  size_t bytes() const { return bytes_; }

 private:
  const size_t bytes_;
  const int device_;
  CUmemAllocationProp properties_{};
  CUdeviceptr at_ = 0;
};

class Registered : public testing::Test {
 protected:
  Registered() {
    rank_ = std::atoi(std::getenv("TUTTI_RANK"));
    use_gpu(rank_);
    stream_.emplace();
    EXPECT_EQ(tuttiCommInitEnv(&comm_), tuttiSuccess) << tuttiGetLastError();
  }
  ~Registered() override { EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << tuttiGetLastError(); }

  void set(float* to, float value, size_t count = kCount) const {
    const std::vector<float> values(count, value);
    cuda::Device::get(rank_).stream().upload(reinterpret_cast<CUdeviceptr>(to), values.data(), count * 4);
  }
  std::vector<float> get(const float* from, size_t count = kCount) const {
    std::vector<float> values(count);
    cuda::Device::get(rank_).stream().download(values.data(), reinterpret_cast<CUdeviceptr>(from), count * 4);
    return values;
  }
  /// An all-reduce of `value` + rank; how it was delivered.
  std::string all_reduce(float* in, float* out, float value) {
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
  const Mapped all(rank_, 3, true);
  float* const in = all.floats(kHandle / 4 - kCount / 2);   // from the first piece to the second, …
  float* const out = all.floats(kHandle / 2 - kCount / 2);  // … and from that to the third
  uint64_t registration = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, all.floats(), all.bytes(), &registration));
  EXPECT_EQ(all_reduce(in, out, 7), "mapped");
}

TEST_F(Registered, APieceThatWasFreedIsNotRead) {
  const Mapped all(rank_, 3, true);
  float* const in = all.floats(kHandle / 4 - kCount / 2);
  float* const out = all.floats(kHandle / 2 - kCount / 2);
  uint64_t registration = 0;
  ASSERT_TUTTI(tuttiCommRegister(comm_, all.floats(), all.bytes(), &registration));
  EXPECT_EQ(all_reduce(in, out, 12), "mapped");
  all.replace(1);
  EXPECT_EQ(all_reduce(in, out, 13), "staged");
}

TEST_F(Registered, WhatCannotBeGivenAwayIsRefusedOnAllRanks) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  const Mapped mine(rank_, 1, rank_ == 0);
  uint64_t registration = 1;
  EXPECT_EQ(tuttiCommRegister(comm_, mine.floats(), mine.bytes(), &registration), tuttiUnsupported);
  expect_contains(tuttiGetLastError(), "made without descriptors");
  EXPECT_EQ(registration, 0U);
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, 4000, stream_->get()), CUDA_SUCCESS);
  EXPECT_EQ(tuttiCommRegister(comm_, reinterpret_cast<void*>(pooled), 4000, &registration), tuttiUnsupported);
  expect_contains(tuttiGetLastError(),
                  "rank 0: the buffer's memory is neither allocated (cudaMalloc) nor mapped (cuMemMap)");
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

/// As nccl-tests do it.
TEST_F(Registered, AGroupOfRegistrations) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  uint64_t registrations[2] = {};
  ASSERT_TUTTI(tuttiGroupStart());
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registrations[0]));
  ASSERT_TUTTI(tuttiCommRegister(comm_, out.get(), kCount * 4, &registrations[1]));
  ASSERT_TUTTI(tuttiGroupEnd());
  EXPECT_NE(registrations[0], 0U);
  EXPECT_NE(registrations[1], 0U);
  EXPECT_EQ(all_reduce(in, out, 10), "mapped");
  ASSERT_TUTTI(tuttiGroupStart());
  for (const uint64_t one : registrations) ASSERT_TUTTI(tuttiCommDeregister(comm_, one));
  ASSERT_TUTTI(tuttiGroupEnd());
  EXPECT_EQ(all_reduce(in, out, 11), "staged");
}

/// More than there are regions, one after the other: their numbers are used again.
TEST_F(Registered, ManyBuffersAfterEachOther) {
  const GpuBuffer out(kCount * 4);
  for (int i = 0; i < 70; ++i) {
    const GpuBuffer in(kCount * 4);
    uint64_t registration = 0;
    ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration));
    if (i % 10 == 0) {
      EXPECT_NE(all_reduce(in, out, static_cast<float>(i)).find("mapped"), std::string::npos);
    }
    ASSERT_TUTTI(tuttiCommDeregister(comm_, registration));
  }
}

}  // namespace
}  // namespace tutti
