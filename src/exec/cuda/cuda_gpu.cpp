#include "exec/cuda/cuda_gpu.hpp"

#include "transports/cuda/driver.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::check;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

unsigned char* CudaGpu::allocate_on_host(uint64_t bytes) const {
  const WithContext with(device_.context());
  void* memory = nullptr;
  constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  check(driver().cuMemHostAlloc(&memory, bytes, kFlags), "pinned memory of the host");
  return static_cast<unsigned char*>(memory);
}

unsigned char* CudaGpu::allocate_on_device(uint64_t bytes) const {
  const WithContext with(device_.context());
  CUdeviceptr memory = 0;
  check(driver().cuMemAlloc(&memory, bytes), "memory of the GPU for messages");
  return reinterpret_cast<unsigned char*>(memory);
}

unsigned char* CudaGpu::device_address(unsigned char* on_host) const {
  const WithContext with(device_.context());
  CUdeviceptr there = 0;
  check(driver().cuMemHostGetDevicePointer(&there, on_host, 0), "pinned memory of the host");
  return reinterpret_cast<unsigned char*>(there);
}

gpu::Rdma CudaGpu::rdma() const {
  switch (device_.rdma()) {
    case tutti::cuda::Rdma::Flushed:
      return gpu::Rdma::Flushed;
    case tutti::cuda::Rdma::Ordered:
      return gpu::Rdma::Ordered;
    case tutti::cuda::Rdma::None:
      break;
  }
  return gpu::Rdma::None;
}

void CudaGpu::use(const std::function<void()>& task) const {
  const WithContext with(device_.context());
  task();
}

}  // namespace tutti::exec::cuda
