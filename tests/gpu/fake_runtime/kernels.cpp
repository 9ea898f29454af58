// Kernels of the program: none runs, since there are no twins of them. A launch succeeds, is counted, and is named on
// stderr when it is the first of its kind; what the kernel would have written stays as it was.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "runtime.hpp"

namespace {

struct Kernels {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> names;  // by the host's function
  std::unordered_map<const void*, uint64_t> launched;
  uint64_t launches = 0;
};

Kernels& kernels() {
  static Kernels* const kOne = new Kernels;  // libraries register theirs before and after everything
  return *kOne;
}

cudaError_t skip(const void* function) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  ++all.launches;
  if (all.launched[function]++ == 0) {
    const auto named = all.names.find(function);
    std::fprintf(stderr, "fake_runtime: a kernel is skipped: %.200s\n",
                 named != all.names.end() ? named->second : "(unknown)");
  }
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local Configuration pushed{};

}  // namespace

extern "C" {

/// How many launches were skipped, in this process.
uint64_t fake_runtime_skipped() {
  const std::lock_guard lock(kernels().mutex);
  return kernels().launches;
}

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(kernels().mutex);
  kernels().names.emplace(function, name);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  std::memcpy(stream, &pushed.stream, sizeof pushed.stream);
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) { return skip(kernel); }
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) { return skip(function); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void**) { return skip(function); }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* facts, const void*) {
  std::memset(facts, 0, sizeof *facts);
  facts->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}

}  // extern "C"
