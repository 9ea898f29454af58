// Where entry points are found, and the names of errors.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "api.hpp"

namespace fake {
namespace {

/// Entry points whose older forms have other parameters, and are not here.
struct Since {
  const char* name;
  int version;
};
constexpr Since kSince[] = {{"cuStreamGetCaptureInfo", 11030}, {"cuStreamUpdateCaptureDependencies", 12030}};

/// The newest form of an entry point, by the name that it has without a version.
void* find_symbol(const std::string& name) {
  static void* const kSelf = [] {
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&find_symbol), &here);
    return dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  for (const char* suffix : {"_v4", "_v3", "_v2", "WithFlags", ""}) {
    if (suffix[0] == 'W' && name != "cuGraphInstantiate") continue;
    if (void* const found = dlsym(kSelf, (name + suffix).c_str()); found != nullptr) return found;
  }
  return nullptr;
}

struct ErrorName {
  CUresult code;
  const char* name;
};
#define TUTTI_ERROR(name) \
  { name, #name }
constexpr ErrorName kErrors[] = {
    TUTTI_ERROR(CUDA_SUCCESS),
    TUTTI_ERROR(CUDA_ERROR_INVALID_VALUE),
    TUTTI_ERROR(CUDA_ERROR_OUT_OF_MEMORY),
    TUTTI_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    TUTTI_ERROR(CUDA_ERROR_NO_DEVICE),
    TUTTI_ERROR(CUDA_ERROR_INVALID_DEVICE),
    TUTTI_ERROR(CUDA_ERROR_INVALID_IMAGE),
    TUTTI_ERROR(CUDA_ERROR_INVALID_CONTEXT),
    TUTTI_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
    TUTTI_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    TUTTI_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE),
    TUTTI_ERROR(CUDA_ERROR_FILE_NOT_FOUND),
    TUTTI_ERROR(CUDA_ERROR_OPERATING_SYSTEM),
    TUTTI_ERROR(CUDA_ERROR_INVALID_HANDLE),
    TUTTI_ERROR(CUDA_ERROR_ILLEGAL_STATE),
    TUTTI_ERROR(CUDA_ERROR_NOT_FOUND),
    TUTTI_ERROR(CUDA_ERROR_NOT_READY),
    TUTTI_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    TUTTI_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    TUTTI_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
    TUTTI_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
    TUTTI_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    TUTTI_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    TUTTI_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    TUTTI_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    TUTTI_ERROR(CUDA_ERROR_LAUNCH_FAILED),
    TUTTI_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
    TUTTI_ERROR(CUDA_ERROR_NOT_SUPPORTED),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    TUTTI_ERROR(CUDA_ERROR_CAPTURED_EVENT),
    TUTTI_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),
};
#undef TUTTI_ERROR

CUresult name_of(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const ErrorName& one : kErrors) {
    if (one.code != error) continue;
    *name = one.name;
    return CUDA_SUCCESS;
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuGetErrorName(CUresult error, const char** name) { return name_of(error, name); }
CUresult cuGetErrorString(CUresult error, const char** text) { return name_of(error, text); }

CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
  const bool hidden = std::strncmp(name, "cuMulticast", 11) == 0 && config().fails("no_multicast_api", 0);
  *function = hidden ? nullptr : find_symbol(name);
  if (std::strcmp(name, "cuStreamGetCaptureInfo") == 0 && version >= 11030 && version < 12030) {
    *function = find_symbol("cuStreamGetCaptureInfo_v2");
  }
  for (const Since& one : kSince) {
    if (std::strcmp(one.name, name) == 0 && version < one.version) answer = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  }
  if (*function == nullptr) answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (answer != CU_GET_PROC_ADDRESS_SUCCESS) *function = nullptr;
  if (status != nullptr) *status = answer;
  return answer == CU_GET_PROC_ADDRESS_SUCCESS || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
