// The stream of CUDA's that moves what peers of other hosts put into windows, and get from them.
#pragma once

#include "exec/cuda/copy_stream.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/gpu/far_stream.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class FarCopies final : public gpu::FarStream {
 public:
  /// `atomic`: window_kernel(). Throws Error(SystemError).
  FarCopies(const tutti::cuda::Device& device, const LoadedKernel& atomic);
  ~FarCopies() override;

  // The device's context is the thread's.
  void copy(uint64_t to, uint64_t from, uint64_t bytes) override { words_.copy(to, from, bytes); }
  void step(const gpu::FarRequest& request, uint64_t at, uint64_t before) override;
  void write(uint64_t at, uint64_t value) override { words_.write_long(at, value); }
  void flush() override { words_.flush(); }

 private:
  const tutti::cuda::Device& device_;
  const LoadedKernel atomic_;
  const CUstream stream_;
  CopyStream words_;
};

}  // namespace tutti::exec::cuda
