// Memory and copies.
#include <cstring>

#include "runtime.hpp"

using namespace fake_runtime;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return with_context([&] { return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(memory), bytes); });
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return with_context([] { return CUDA_SUCCESS; });  // programs start the runtime so
  return with_context([&] { return cuMemFree(at(memory)); });
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return with_context([&] { return cuMemHostAlloc(memory, bytes, flags); });
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }
cudaError_t cudaFreeHost(void* memory) {
  return with_context([&] { return cuMemFreeHost(memory); });
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags) {
  return with_context([&] { return cuMemHostRegister(memory, bytes, flags); });
}
cudaError_t cudaHostUnregister(void* memory) {
  return with_context([&] { return cuMemHostUnregister(memory); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_context([&] { return cuMemGetInfo(free, total); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return with_context([&] { return cuMemcpy(at(to), at(from), bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return with_context([&] { return cuMemcpyAsync(at(to), at(from), bytes, stream); });
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return with_context([&] { return cuMemsetD8(at(memory), static_cast<unsigned char>(value), bytes); });
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return with_context([&] { return cuMemsetD8Async(at(memory), static_cast<unsigned char>(value), bytes, stream); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* facts, const void* memory) {
  std::memset(facts, 0, sizeof *facts);
  CUmemorytype kind{};
  const CUresult asked = cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(memory));
  facts->device = -1;
  if (asked != CUDA_SUCCESS) return cudaSuccess;  // ordinary memory of the host
  facts->type = kind == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  cuPointerGetAttribute(&facts->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at(memory));
  (facts->type == cudaMemoryTypeHost ? facts->hostPointer : facts->devicePointer) = const_cast<void*>(memory);
  return cudaSuccess;
}

}  // extern "C"
