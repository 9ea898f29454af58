// A GPU of CUDA for what is of no vendor (exec/gpu/gpu.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exec/gpu/gpu.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class CudaGpu final : public gpu::Gpu {
 public:
  explicit CudaGpu(const tutti::cuda::Device& device) : device_(device) {}
  const std::string& name() const override { return device_.name(); }
  int number() const override { return device_.number(); }
  std::string failure() const override { return device_.stream().failure(); }
  unsigned char* allocate_on_host(uint64_t bytes) const override;
  unsigned char* allocate_on_device(uint64_t bytes) const override;
  unsigned char* device_address(unsigned char* on_host) const override;
  gpu::Rdma rdma() const override;
  void flush_rdma() const override { device_.flush_rdma(); }
  void use(const std::function<void()>& task) const override;

 private:
  const tutti::cuda::Device& device_;
};

}  // namespace tutti::exec::cuda
