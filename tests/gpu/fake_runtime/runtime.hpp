// What the parts of the stand-in for CUDA's runtime share: each function of the runtime is one or two of the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace fake_runtime {

/// The runtime's codes have the driver's numbers. The thread's last error, as cudaGetLastError gives it.
cudaError_t done(CUresult result);
cudaError_t done(cudaError_t result);

/// The context of the thread's device becomes current, as at the first call of the runtime's that needs one.
CUresult bind();
/// The primary context of a device; it is kept for ever.
CUresult primary(int device, CUcontext* context);

/// Calls a function of the driver with a context.
template <class Call>
cudaError_t with_context(const Call& call) {
  const CUresult bound = bind();
  return done(bound == CUDA_SUCCESS ? call() : bound);
}

inline CUdeviceptr at(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace fake_runtime
