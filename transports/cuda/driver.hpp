// NVIDIA's driver library, loaded at run time: nothing of Tutti is linked with it.
#pragma once

#include <cuda.h>

#include <string>

namespace tutti::cuda {

/// The functions that are used: X(name). cuda.h renames some to their newest form. The driver is asked for the form
/// that CUDA 12.4 has, whatever cuda.h is of, so that drivers from then on have it.
#define TUTTI_CUDA_FUNCTIONS(X)                  \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetUuid)                             \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceTotalMem)                            \
  X(cuDeviceCanAccessPeer)                       \
  X(cuDeviceGetP2PAttribute)                     \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease)                   \
  X(cuCtxPushCurrent)                            \
  X(cuCtxPopCurrent)                             \
  X(cuCtxGetCurrent)                             \
  X(cuCtxGetDevice)                              \
  X(cuCtxGetStreamPriorityRange)                 \
  X(cuStreamCreateWithPriority)                  \
  X(cuStreamDestroy)                             \
  X(cuStreamSynchronize)                         \
  X(cuStreamQuery)                               \
  X(cuStreamGetCtx)                              \
  X(cuStreamWaitEvent)                           \
  X(cuStreamBatchMemOp)                          \
  X(cuThreadExchangeStreamCaptureMode)           \
  X(cuEventCreate)                               \
  X(cuEventDestroy)                              \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuMemAlloc)                                  \
  X(cuMemFree)                                   \
  X(cuMemHostAlloc)                              \
  X(cuMemHostGetDevicePointer)                   \
  X(cuMemcpyAsync)                               \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyDtoDAsync)                           \
  X(cuMemsetD8Async)                             \
  X(cuMemGetAllocationGranularity)               \
  X(cuMemCreate)                                 \
  X(cuMemRelease)                                \
  X(cuMemRetainAllocationHandle)                 \
  X(cuMemAddressReserve)                         \
  X(cuMemAddressFree)                            \
  X(cuMemMap)                                    \
  X(cuMemUnmap)                                  \
  X(cuMemSetAccess)                              \
  X(cuMemExportToShareableHandle)                \
  X(cuMemImportFromShareableHandle)              \
  X(cuMemHostRegister)                           \
  X(cuMemHostUnregister)                         \
  X(cuIpcGetMemHandle)                           \
  X(cuIpcOpenMemHandle)                          \
  X(cuIpcCloseMemHandle)                         \
  X(cuCtxEnablePeerAccess)                       \
  X(cuPointerGetAttributes)                      \
  X(cuMemGetAddressRange)                        \
  X(cuLibraryLoadData)                           \
  X(cuLibraryGetKernel)                          \
  X(cuKernelGetFunction)                         \
  X(cuKernelGetAttribute)                        \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuLaunchKernel)                              \
  X(cuUserObjectCreate)                          \
  X(cuGraphRetainUserObject)

/// Those that the driver may lack: then the pointer is null.
#define TUTTI_CUDA_OPTIONAL_FUNCTIONS(X) \
  X(cuStreamGetGreenCtx)                 \
  X(cuCtxGetDevResource)                 \
  X(cuMulticastGetGranularity)           \
  X(cuMulticastCreate)                   \
  X(cuMulticastAddDevice)                \
  X(cuMulticastBindMem)                  \
  X(cuMulticastUnbind)                   \
  X(cuFlushGPUDirectRDMAWrites)

struct Driver {
#define TUTTI_CUDA_POINTER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_POINTER)
  TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_POINTER)
#undef TUTTI_CUDA_POINTER
  /// As CUDA 11.3 to 12.2 call it; cuda.h may have a later form, with the kinds of edges.
  CUresult (*cuStreamGetCaptureInfo)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                     const CUgraphNode** dependencies, size_t* count) = nullptr;

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  std::string describe(CUresult result) const;
};

/// The first release of the driver for this CUDA (13000 for 13.0): "580".
std::string driver_for(int cuda);

/// Is the driver library loaded in this process, by whomever? Only then can it have memory of a GPU.
bool is_loaded();
/// The driver, loaded and initialised at the first call. Throws Error(Unsupported) with the reason if there is none.
const Driver& driver();
/// Why there is no usable driver or device here; "" if there is one.
std::string why_no_driver();

/// Throws Error(OutOfMemory | SystemError) with `what` and the driver's words, unless the call was successful.
void check(CUresult result, const char* what);

/// Makes a context current on this thread, for as long as this object lives. What is done meanwhile is permitted while
/// a stream is captured.
class WithContext {
 public:
  explicit WithContext(CUcontext context);
  ~WithContext();
  WithContext(const WithContext&) = delete;
  WithContext& operator=(const WithContext&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace tutti::cuda
