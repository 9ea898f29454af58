// The functions of CUDA's runtime that nccl-tests call, by the driver's: for the stand-in (tests/gpu/fake), on which
// NVIDIA's own runtime does not start, since it takes more of a driver than is documented. Kernels run if they have a
// twin (kernels.hpp): on the host, in the order of their stream.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "kernels.hpp"

namespace {

constexpr int kMaxDevices = 64;
thread_local int current = 0;
std::mutex twins_mutex;
std::set<const nccl_tests::Twin*> twins;

bool is_twin(const nccl_tests::Twin* twin) {
  const std::lock_guard lock(twins_mutex);
  return twins.contains(twin);
}

cudaError_t of(CUresult result) { return static_cast<cudaError_t>(result); }  // equal numbers since CUDA 10.1

/// Makes this thread's device current.
CUresult enter() {
  static std::once_flag once;
  static CUresult started;
  static CUcontext contexts[kMaxDevices];
  static std::mutex mutex;
  std::call_once(once, [] { started = cuInit(0); });
  if (started != CUDA_SUCCESS) return started;
  const std::lock_guard lock(mutex);
  if (contexts[current] == nullptr) {
    if (const CUresult result = cuDevicePrimaryCtxRetain(&contexts[current], current); result != CUDA_SUCCESS)
      return result;
  }
  return cuCtxSetCurrent(contexts[current]);
}

template <class Function, class... Arguments>
cudaError_t run(Function function, Arguments... arguments) {
  const CUresult entered = enter();
  return of(entered != CUDA_SUCCESS ? entered : function(arguments...));
}

CUdeviceptr device_pointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// A launch: a twin with its arguments, all of which are copied.
struct Launch {
  const nccl_tests::Twin* twin;
  dim3 grid, block;
  std::vector<std::shared_ptr<void>> arguments;
};

void run_launch(void* data) {
  const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
  std::vector<void*> arguments;
  for (const auto& one : launch->arguments) arguments.push_back(one.get());
  nccl_tests::block_dim = {launch->block.x, 1, 1};
  nccl_tests::grid_dim = {launch->grid.x, 1, 1};
  for (unsigned block = 0; block < launch->grid.x; ++block) {
    for (unsigned thread = 0; thread < launch->block.x; ++thread) {
      nccl_tests::block_index = {block, 0, 0};
      nccl_tests::thread_index = {thread, 0, 0};
      launch->twin->run(arguments.data());
    }
  }
}

}  // namespace

namespace nccl_tests {
thread_local uint3 thread_index, block_index, block_dim, grid_dim;
void add(const Twin* twin) {
  const std::lock_guard lock(twins_mutex);
  twins.insert(twin);
}
}  // namespace nccl_tests

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  const char* name = nullptr;
  cuGetErrorName(static_cast<CUresult>(error), &name);
  return name != nullptr ? name : "an error of CUDA without a name here";
}
cudaError_t cudaGetDeviceCount(int* count) { return run(cuDeviceGetCount, count); }
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess) return result;
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  current = device;
  return of(enter());
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return run(cuDeviceGetAttribute, value, static_cast<CUdevice_attribute>(attribute), device);  // equal numbers
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  cudaError_t result = run(cuDeviceGetName, properties->name, static_cast<int>(sizeof properties->name), device);
  if (result == cudaSuccess) result = run(cuDeviceTotalMem, &properties->totalGlobalMem, device);
  const auto attribute = [&](int& value, cudaDeviceAttr which) {
    if (result == cudaSuccess) result = cudaDeviceGetAttribute(&value, which, device);
  };
  attribute(properties->major, cudaDevAttrComputeCapabilityMajor);
  attribute(properties->minor, cudaDevAttrComputeCapabilityMinor);
  attribute(properties->multiProcessorCount, cudaDevAttrMultiProcessorCount);
  attribute(properties->pciBusID, cudaDevAttrPciBusId);
  attribute(properties->pciDeviceID, cudaDevAttrPciDeviceId);
  return result;
}
cudaError_t cudaDeviceSynchronize() { return run(cuCtxSynchronize); }
cudaError_t cudaDeviceReset() { return cudaSuccess; }  // the process ends after it

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return run(cuMemAlloc, reinterpret_cast<CUdeviceptr*>(pointer), bytes);
}
cudaError_t cudaFree(void* pointer) { return run(cuMemFree, device_pointer(pointer)); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return run(cuMemHostAlloc, pointer, bytes, flags);
}
cudaError_t cudaFreeHost(void* pointer) { return run(cuMemFreeHost, pointer); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { return run(cuMemGetInfo, free, total); }
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return run(cuMemsetD8, device_pointer(to), static_cast<unsigned char>(value), bytes);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return run(cuMemcpy, device_pointer(to), device_pointer(from), bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return run(cuMemcpyAsync, device_pointer(to), device_pointer(from), bytes, stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return run(cuStreamCreate, stream, flags);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return run(cuStreamQuery, stream); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return run(cuStreamBeginCapture, stream, static_cast<CUstreamCaptureMode>(mode));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return run(cuStreamEndCapture, stream, graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  return run(cuGraphInstantiate, made, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) { return run(cuGraphLaunch, graph, stream); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return run(cuGraphExecDestroy, graph); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return run(cuGraphDestroy, graph); }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return run(cuEventCreate, event, CU_EVENT_DEFAULT); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return run(cuEventDestroy, event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return run(cuEventRecord, event, stream); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return run(cuEventElapsedTime, ms, begin, end);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t,
                             cudaStream_t stream) {
  const auto* const twin = static_cast<const nccl_tests::Twin*>(function);
  if (!is_twin(twin)) {
    std::fprintf(stderr, "nccl_tests/runtime: this kernel has no twin here\n");
    return cudaErrorInvalidDeviceFunction;
  }
  return run(cuLaunchHostFunc, stream, run_launch,
             static_cast<void*>(new Launch{twin, grid, block, twin->copy(arguments)}));
}

// What nvcc's objects call when they are loaded: kernels without a twin are in them.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*) {}
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*) { return 1; }  // not 0: the launch does not happen
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorInvalidDeviceFunction; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorInvalidDeviceFunction; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaErrorInvalidDeviceFunction;
}
}
