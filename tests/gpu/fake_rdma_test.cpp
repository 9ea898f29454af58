// The fake driver's rules of memory that network devices reach.
#include <sys/mman.h>
#include <unistd.h>

#include "on_fake.hpp"

namespace tutti::test {
namespace {

constexpr size_t kBytes = 256 << 10, kPage = 4096;

CUresult export_range(CUdeviceptr at, size_t bytes, int* fd) {
  return cuMemGetHandleForAddressRange(fd, at, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

int attribute(CUdevice_attribute which) {
  int value = -1;
  check(cuDeviceGetAttribute(&value, which, 0), "cuDeviceGetAttribute");
  return value;
}

ON_FAKE(FakeRdma, givesARangeOfADevicesMemory, "") {
  Gpu gpu;
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 1);
  uint32_t* const memory = device_memory(kBytes / sizeof(uint32_t));
  const CUdeviceptr at = (address(memory) + kPage - 1) / kPage * kPage + kPage;
  int fd = -1;
  CHECK_CUDA(export_range(at, 2 * kPage, &fd));
  void* const mapped = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, lseek(fd, 0, SEEK_CUR));
  ASSERT_NE(mapped, MAP_FAILED);
  static_cast<uint32_t*>(mapped)[3] = 77;
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(at) + 3), 77U);
  close(fd);
}

ON_FAKE(FakeRdma, takesWholePagesOfOneAllocationOnADevice, "") {
  Gpu gpu;
  const CUdeviceptr at = (address(device_memory(kBytes / sizeof(uint32_t))) + kPage - 1) / kPage * kPage;
  int fd = -1;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, export_range(at + 512, kPage, &fd));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, export_range(at, 100, &fd));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, export_range(at, 0, &fd));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, export_range(at, 1 << 30, &fd));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, export_range(address(host_memory(8192)), kPage, &fd));
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED,
              cuMemGetHandleForAddressRange(&fd, at, kPage, static_cast<CUmemRangeHandleType>(9), 0));
}

ON_FAKE(FakeRdma, isRefusedWhereTheDriverHasNoDmabufs, "FAKE_CUDA_INJECT=no_dmabuf") {
  Gpu gpu;
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 0);
  const CUdeviceptr at = (address(device_memory(kBytes / sizeof(uint32_t))) + kPage - 1) / kPage * kPage;
  int fd = -1;
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED, export_range(at, kPage, &fd));
}

ON_FAKE(FakeRdma, writesAreOrderedOrFlushed, "FAKE_CUDA_INJECT=rdma_unordered") {
  constexpr auto kHere = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
  Gpu gpu;
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING), CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
  CHECK_CUDA(cuFlushGPUDirectRDMAWrites(kHere, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuFlushGPUDirectRDMAWrites(kHere, static_cast<CUflushGPUDirectRDMAWritesScope>(7)));
  CHECK_CUDA(cuCtxSetCurrent(nullptr));
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuFlushGPUDirectRDMAWrites(kHere, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
}

}  // namespace
}  // namespace tutti::test
