// Devices, contexts, errors.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime.hpp"

namespace fake_runtime {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

/// The runtime starts the driver at its first call.
CUresult start() {
  static const CUresult kStarted = cuInit(0);
  return kStarted;
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  cuDeviceGetAttribute(&value, which, device);
  return value;
}

}  // namespace

cudaError_t done(cudaError_t result) {
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error = result;
  return result;
}

cudaError_t done(CUresult result) { return done(static_cast<cudaError_t>(result)); }

CUresult primary(int device, CUcontext* context) {
  static std::mutex mutex;
  static std::vector<CUcontext> all;
  if (const CUresult started = start(); started != CUDA_SUCCESS) return started;
  const std::lock_guard lock(mutex);
  int count = 0;
  if (const CUresult counted = cuDeviceGetCount(&count); counted != CUDA_SUCCESS) return counted;
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  all.resize(static_cast<size_t>(count));
  CUcontext& kept = all[static_cast<size_t>(device)];
  if (kept == nullptr) {
    if (const CUresult retained = cuDevicePrimaryCtxRetain(&kept, device); retained != CUDA_SUCCESS) return retained;
  }
  *context = kept;
  return CUDA_SUCCESS;
}

CUresult bind() {
  if (const CUresult started = start(); started != CUDA_SUCCESS) return started;
  CUcontext context = nullptr;
  const CUresult asked = cuCtxGetCurrent(&context);
  if (asked != CUDA_SUCCESS || context != nullptr) return asked;
  const CUresult found = primary(0, &context);
  return found == CUDA_SUCCESS ? cuCtxSetCurrent(context) : found;
}

}  // namespace fake_runtime

using namespace fake_runtime;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  const char* name = nullptr;
  return cuGetErrorName(static_cast<CUresult>(error), &name) == CUDA_SUCCESS ? name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  return cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) { return done(cuDriverGetVersion(version)); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const CUresult started = start();
  return done(started == CUDA_SUCCESS ? cuDeviceGetCount(count) : started);
}
cudaError_t cudaGetDevice(int* device) {
  CUcontext context = nullptr;
  *device = 0;
  if (start() != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return cudaSuccess;
  return done(cuCtxGetDevice(device));
}
cudaError_t cudaSetDevice(int device) {
  CUcontext context = nullptr;
  const CUresult found = primary(device, &context);
  return done(found == CUDA_SUCCESS ? cuCtxSetCurrent(context) : found);
}
cudaError_t cudaDeviceSynchronize() {
  return with_context([] { return cuCtxSynchronize(); });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  start();
  return done(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device));
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return done(cuDeviceGetPCIBusId(text, length, device));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  start();
  return done(cuDeviceCanAccessPeer(can, device, peer));
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  CUcontext context = nullptr;
  const CUresult found = primary(peer, &context);
  if (found != CUDA_SUCCESS) return done(found);
  return with_context([&] { return cuCtxEnablePeerAccess(context, flags); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int device) {
  std::memset(facts, 0, sizeof *facts);
  start();
  const CUresult named = cuDeviceGetName(facts->name, sizeof facts->name, device);
  if (named != CUDA_SUCCESS) return done(named);
  cuDeviceTotalMem(&facts->totalGlobalMem, device);
  facts->major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  facts->minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts->multiProcessorCount = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts->maxThreadsPerBlock = 1024;
  facts->maxThreadsPerMultiProcessor = 2048;
  facts->warpSize = 32;
  facts->regsPerBlock = facts->regsPerMultiprocessor = 65536;
  facts->sharedMemPerBlock = 48 << 10;
  facts->pciDeviceID = device;
  std::fill(std::begin(facts->maxGridSize), std::end(facts->maxGridSize), 65535);
  std::fill(std::begin(facts->maxThreadsDim), std::end(facts->maxThreadsDim), 1024);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  start();
  CUdriverProcAddressQueryResult found{};
  cuGetProcAddress(name, function, static_cast<int>(version), flags, &found);
  if (result != nullptr) {
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;  // what the driver lacks is said by `result`
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
