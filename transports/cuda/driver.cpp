#include "transports/cuda/driver.hpp"

#include <dlfcn.h>

#include <utility>

#include "base/format.hpp"

namespace tutti::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kForms = 12040;        // of CUDA 12.4: R550
constexpr int kCaptureForm = 11030;  // Driver::cuStreamGetCaptureInfo

/// The driver, or why there is none.
struct Loaded {
  Driver driver;
  std::string why_not;
};

/// "" if it is new enough.
std::string why_too_old(void* library) {
  const auto version_of = reinterpret_cast<decltype(&::cuDriverGetVersion)>(::dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != CUDA_SUCCESS) {
    return fmt::format("{} is not NVIDIA's driver: it does not say its version", kLibrary);
  }
  if (version >= kForms) return "";
  return fmt::format(
      "NVIDIA's driver is too old: it is for CUDA {}.{}, and Tutti needs one for CUDA 12.4. Install driver {} "
      "or later",
      version / 1000, version % 1000 / 10, driver_for(kForms));
}

std::string load(Driver& driver) {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed: it does not support that
  if (library == nullptr) return fmt::format("NVIDIA's driver is not installed: {}", ::dlerror());
  if (std::string too_old = why_too_old(library); !too_old.empty()) return too_old;
  const auto find = reinterpret_cast<decltype(&::cuGetProcAddress)>(::dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) return fmt::format("{} is not NVIDIA's driver: it has no cuGetProcAddress_v2", kLibrary);
  std::string missing;
  const auto resolve = [&](const char* name, auto& function, int form = kForms) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult why{};
    const CUresult result = find(name, &found, form, CU_GET_PROC_ADDRESS_DEFAULT, &why);
    if (result != CUDA_SUCCESS || found == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define TUTTI_CUDA_RESOLVE(name) resolve(#name, driver.name);
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_RESOLVE)
  resolve("cuStreamGetCaptureInfo", driver.cuStreamGetCaptureInfo, kCaptureForm);
  const std::string needed = std::exchange(missing, "");
  TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_RESOLVE)
#undef TUTTI_CUDA_RESOLVE
  if (!needed.empty()) return fmt::format("NVIDIA's driver lacks {}; install a newer one", needed);
  const CUresult started = driver.cuInit(0);
  if (started != CUDA_SUCCESS) return fmt::format("NVIDIA's driver cannot start: {}", driver.describe(started));
  int devices = 0;
  if (driver.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices == 0) return "there is no GPU here";
  return "";
}

const Loaded& loaded() {
  static const auto* const kLoaded = [] {
    auto* made = new Loaded;
    made->why_not = load(made->driver);
    return made;
  }();
  return *kLoaded;
}

}  // namespace

std::string driver_for(int cuda) {
  // NVIDIA, CUDA Toolkit Release Notes, table "CUDA Toolkit and Corresponding Driver Versions".
  constexpr std::pair<int, const char*> kReleases[] = {{12040, "550"}, {12050, "555"}, {12060, "560"}, {12080, "570"},
                                                       {12090, "575"}, {13000, "580"}, {13010, "590"}};
  for (const auto& [version, release] : kReleases) {
    if (cuda <= version) return release;
  }
  return fmt::format("for CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return fmt::format("{} ({})", name != nullptr ? name : std::to_string(result), text != nullptr ? text : "no text");
}

bool is_loaded() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

const Driver& driver() {
  if (!loaded().why_not.empty()) throw Error(Code::Unsupported, loaded().why_not);
  return loaded().driver;
}

std::string why_no_driver() { return loaded().why_not; }

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw_error(result == CUDA_ERROR_OUT_OF_MEMORY ? Code::OutOfMemory : Code::SystemError, "{}: {}", what,
              driver().describe(result));
}

WithContext::WithContext(CUcontext context) {
  check(driver().cuCtxPushCurrent(context), "the GPU's context cannot be used");
  driver().cuThreadExchangeStreamCaptureMode(&mode_);
}

WithContext::~WithContext() {
  driver().cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  driver().cuCtxPopCurrent(&popped);
}

}  // namespace tutti::cuda
