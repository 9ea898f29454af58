// What tests of calls on device memory do as an application would: memory, streams and graphs, by the driver.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include <string>
#include <vector>

#include "support/thread_ranks.hpp"
#include "transports/cuda/device.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Makes a device the calling thread's.
inline void use_gpu(int device) {
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  ASSERT_EQ(cuCtxPushCurrent(cuda::Device::get(device).context()), CUDA_SUCCESS);
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

 private:
  unsigned char* memory_ = nullptr;
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

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace tutti
