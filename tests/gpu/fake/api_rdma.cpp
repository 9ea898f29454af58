// Memory of GPUs for network devices: GPUDirect RDMA.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "api.hpp"

using namespace fake;

// The descriptor is that of the whole memfd, since a memfd cannot be cut; its file position is where the range begins.
// (A real dmabuf holds the range alone.)
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  return call("cuMemGetHandleForAddressRange", kInitialised, [&](Call&) {
    require_pointers(handle);
    require(type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && flags == 0, CUDA_ERROR_NOT_SUPPORTED);
    const Mapping* const mapping = memory().find(pointer);
    require(mapping != nullptr && !mapping->on_host() && mapping->physical->team == nullptr && bytes != 0 &&
                pointer % kPage == 0 && bytes % kPage == 0 && pointer + bytes <= mapping->base + mapping->bytes,
            CUDA_ERROR_INVALID_VALUE);
    require(!config().fails("no_dmabuf", mapping->device), CUDA_ERROR_NOT_SUPPORTED);
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", mapping->physical->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);  // with a position of its own
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    lseek(fd, static_cast<off_t>(mapping->offset + pointer - mapping->base), SEEK_SET);
    *static_cast<int*>(handle) = fd;
  });
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope) {
  return call("cuFlushGPUDirectRDMAWrites", kContext, [&](Call&) {
    require(target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                 scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES),
            CUDA_ERROR_INVALID_VALUE);
  });
}
