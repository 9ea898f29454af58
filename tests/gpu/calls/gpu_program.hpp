// What tests of calls on device memory do as an application would: memory, streams and graphs, by the driver.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/thread_ranks.hpp"
#include "transports/cuda/device.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// A failure's text says for what a block waited if the block says so within 200 ms: less than a turn of all threads of
/// a GPU takes under ThreadSanitizer on a busy machine.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kBlocksReport = false;
#else
inline constexpr bool kBlocksReport = true;
#endif

/// Seconds after a failure in which the streams of all ranks end.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kStreamsEndWithin = 5;
#else
inline constexpr double kStreamsEndWithin = 1;
#endif

/// Makes a device the calling thread's.
inline void use_gpu(int device) {
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  ASSERT_EQ(cuCtxPushCurrent(cuda::Device::get(device).context()), CUDA_SUCCESS);
}

inline int count_gpus() {
  int count = 0;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  return count;
}

/// Memory of the calling thread's device.
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(tuttiMemAllocWithFlags(&memory, bytes, TUTTI_MEM_DEVICE), tuttiSuccess) << tuttiGetLastError();
    memory_ = static_cast<unsigned char*>(memory);
  }
  ~GpuBuffer() { free(); }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  void free() {
    if (memory_ != nullptr) tuttiMemFree(memory_);
    memory_ = nullptr;
  }
  unsigned char* get() const { return memory_; }
  void set(const std::vector<float>& values) const {
    cuda::Device::get(0).stream().upload(reinterpret_cast<CUdeviceptr>(memory_), values.data(), values.size() * 4);
  }
  std::vector<float> floats(size_t count) const {
    std::vector<float> values(count);
    cuda::Device::get(0).stream().download(values.data(), reinterpret_cast<CUdeviceptr>(memory_), count * 4);
    return values;
  }

 private:
  unsigned char* memory_ = nullptr;
};

#define ASSERT_TUTTI(call) ASSERT_EQ(call, tuttiSuccess) << tuttiGetLastError()

/// A range of a device's addresses, mapped piece by piece, as PyTorch's expandable segments are.
class MappedMemory {
 public:
  static constexpr size_t kPiece = 2 << 20;  ///< bytes
  MappedMemory(int device, size_t pieces, bool with_descriptors = false) : bytes_(pieces * kPiece), device_(device) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    if (with_descriptors) properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(cuMemAddressReserve(&at_, bytes_ + kPiece, 0, 0, 0), CUDA_SUCCESS);  // and nothing behind it
    for (size_t i = 0; i < pieces; ++i) map(i);
  }
  ~MappedMemory() {
    cuMemUnmap(at_, bytes_);
    cuMemAddressFree(at_, bytes_ + kPiece);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  /// Other memory at the same addresses.
  void replace(size_t piece) const {
    EXPECT_EQ(cuMemUnmap(at_ + piece * kPiece, kPiece), CUDA_SUCCESS);
    map(piece);
  }
  void* get() const { return reinterpret_cast<void*>(at_); }
  float* floats(size_t at = 0) const { return reinterpret_cast<float*>(at_) + at; }
  size_t bytes() const { return bytes_; }

 private:
  void map(size_t piece) const {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kPiece, &properties_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(at_ + piece * kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemSetAccess(at_ + piece * kPiece, kPiece, &access, 1), CUDA_SUCCESS);
  }
  const size_t bytes_;
  const int device_;
  CUmemAllocationProp properties_{};
  CUdeviceptr at_ = 0;
};

class GpuStream {
 public:
  GpuStream() { EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS); }
  ~GpuStream() { destroy(); }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  void destroy() {
    if (stream_ != nullptr) cuStreamDestroy(stream_);
    stream_ = nullptr;
  }
  void synchronize() const { EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS); }
  CUstream get() const { return stream_; }
  tuttiStream_t handle() const { return reinterpret_cast<tuttiStream_t>(stream_); }

 private:
  CUstream stream_ = nullptr;
};

/// What is captured while `calls` runs.
class Graph {
 public:
  Graph(const GpuStream& stream, const std::function<void()>& calls) {
    EXPECT_EQ(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    calls();
    EXPECT_EQ(cuStreamEndCapture(stream.get(), &graph_), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiate(&runnable_, graph_, 0), CUDA_SUCCESS);
  }
  ~Graph() {
    cuGraphExecDestroy(runnable_);
    cuGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(const GpuStream& stream) const { EXPECT_EQ(cuGraphLaunch(runnable_, stream.get()), CUDA_SUCCESS); }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec runnable_ = nullptr;
};

/// Two ranks on GPU 0, whose calls wait 2 s at most. (The ranks meet within it, too, on a busy machine.).
inline std::array<tuttiComm_t, 2> impatient_ranks() {
  std::array<tuttiComm_t, 2> comms{};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout = 2;
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    use_gpu(0);
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config), tuttiSuccess)
        << tuttiGetLastError();
  });
  return comms;
}

/// Waits until the communicator has failed. Its text.
inline std::string failure_of(tuttiComm_t comm, tuttiResult_t expected) {
  tuttiResult_t result = tuttiSuccess;
  while (tuttiCommGetAsyncError(comm, &result) == tuttiSuccess && result == tuttiSuccess) std::this_thread::yield();
  EXPECT_EQ(result, expected);
  return tuttiCommGetErrorText(comm);
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace tutti
