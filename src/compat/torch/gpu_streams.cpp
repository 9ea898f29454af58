#include "compat/torch/gpu_streams.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <dlfcn.h>

#include <type_traits>

#include "tutti/error.hpp"

namespace tutti_torch {
namespace {

/// Of cuda.h.
constexpr int kSuccess = 0, kInvalidContext = 201, kCaptureNone = 0, kCaptureModeRelaxed = 2;

/// c10::cuda::CUDAStream::stream() const, whose object is a c10::Stream and nothing else. Only newer PyTorch has
/// it in c10's interface of devices too.
constexpr const char* kStreamOf = "_ZNK3c104cuda10CUDAStream6streamEv";

/// Functions of libraries that PyTorch has loaded.
struct Found {
  void* (*stream_of)(const c10::Stream*);
  int (*cuStreamIsCapturing)(void* stream, int* status);
  int (*cuThreadExchangeStreamCaptureMode)(int* mode);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuCtxSetCurrent)(void* context);
};

template <class Function>
void find(const char* library, const char* symbol, Function& function) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  function = loaded != nullptr ? reinterpret_cast<Function>(dlsym(loaded, symbol)) : nullptr;
  if (function != nullptr) return;
  throw tutti::Error(tutti::Code::Unsupported,
                     c10::str("tensors of a GPU need a PyTorch that was built for CUDA, and NVIDIA's driver: ",
                              loaded != nullptr ? c10::str(library, " has no ", symbol)
                                                : c10::str(library, " is not loaded in this process")));
}

const Found& found() {
  static const Found kFound = [] {
    Found all{};
    find("libc10_cuda.so", kStreamOf, all.stream_of);
    find("libcuda.so.1", "cuStreamIsCapturing", all.cuStreamIsCapturing);
    find("libcuda.so.1", "cuThreadExchangeStreamCaptureMode", all.cuThreadExchangeStreamCaptureMode);
    find("libcuda.so.1", "cuDevicePrimaryCtxRetain", all.cuDevicePrimaryCtxRetain);
    find("libcuda.so.1", "cuDevicePrimaryCtxRelease_v2", all.cuDevicePrimaryCtxRelease);
    find("libcuda.so.1", "cuCtxSetCurrent", all.cuCtxSetCurrent);
    return all;
  }();
  return kFound;
}

c10::impl::VirtualGuardImpl gpus() { return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA); }

void check_driver(int result, const char* function) {
  if (result == kSuccess) return;
  throw tutti::Error(tutti::Code::SystemError, c10::str(function, " failed with CUDA's error ", result));
}

}  // namespace

c10::Stream current_stream(c10::Device device) { return gpus().getStream(device); }

c10::Stream pooled_stream(c10::Device device) { return gpus().getStreamFromGlobalPool(device); }

tuttiStream_t handle_of(const c10::Stream& stream) {
  // The legacy default stream is null in CUDA; its other name tells it from a call without a stream.
  constexpr uintptr_t kLegacy = 1;
  const auto handle = reinterpret_cast<uintptr_t>(found().stream_of(&stream));
  return reinterpret_cast<tuttiStream_t>(handle == 0 ? kLegacy : handle);
}

bool is_capturing(const c10::Stream& stream) {
  int status = kCaptureNone;
  int result = found().cuStreamIsCapturing(handle_of(stream), &status);
  if (result == kInvalidContext) {  // this is the thread's first use of a GPU
    use_device(stream.device());
    result = found().cuStreamIsCapturing(handle_of(stream), &status);
  }
  check_driver(result, "cuStreamIsCapturing");
  return status != kCaptureNone;
}

void order(c10::Event& event, const c10::Stream& before, const c10::Stream& after) {
  event.record(before);
  event.block(after);
}

void use_device(c10::Device device) {
  void* context = nullptr;
  check_driver(found().cuDevicePrimaryCtxRetain(&context, device.index()), "cuDevicePrimaryCtxRetain");
  const int used = found().cuCtxSetCurrent(context);
  found().cuDevicePrimaryCtxRelease(device.index());  // PyTorch holds it
  check_driver(used, "cuCtxSetCurrent");
}

void allow_beside_captures() {
  int mode = kCaptureModeRelaxed;
  check_driver(found().cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
}

}  // namespace tutti_torch
