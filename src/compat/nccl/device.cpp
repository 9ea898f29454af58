#include "compat/nccl/device.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

// Of cuda.h.
constexpr int kMemoryType = 2, kIsManaged = 8;
constexpr unsigned kOnDevice = 2;

/// Functions of the driver.
struct Driver {
  int (*cuCtxGetDevice)(int*);
  int (*cuCtxGetCurrent)(void**);
  int (*cuCtxSetCurrent)(void*);
  int (*cuPointerGetAttribute)(void* out, int attribute, unsigned long long pointer);
  int (*cuMemcpyDtoHAsync_v2)(void* to, unsigned long long from, size_t bytes, void* stream);
  int (*cuStreamCreate)(void** stream, unsigned flags);
  int (*cuStreamSynchronize)(void* stream);
  int (*cuStreamDestroy_v2)(void* stream);
};

/// Null where no driver is loaded.
std::atomic<const Driver*> g_driver{nullptr};

}  // namespace

void find_driver() {
  if (g_driver.load(std::memory_order_acquire) != nullptr) return;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  static const Driver kDriver = [&] {
    Driver driver{};
    const auto find = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(driver.cuCtxGetDevice, "cuCtxGetDevice");
    find(driver.cuCtxGetCurrent, "cuCtxGetCurrent");
    find(driver.cuCtxSetCurrent, "cuCtxSetCurrent");
    find(driver.cuPointerGetAttribute, "cuPointerGetAttribute");
    find(driver.cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2");
    find(driver.cuStreamCreate, "cuStreamCreate");
    find(driver.cuStreamSynchronize, "cuStreamSynchronize");
    find(driver.cuStreamDestroy_v2, "cuStreamDestroy_v2");
    return driver;
  }();
  const bool complete = kDriver.cuCtxGetDevice != nullptr && kDriver.cuCtxGetCurrent != nullptr &&
                        kDriver.cuCtxSetCurrent != nullptr && kDriver.cuPointerGetAttribute != nullptr &&
                        kDriver.cuMemcpyDtoHAsync_v2 != nullptr && kDriver.cuStreamCreate != nullptr &&
                        kDriver.cuStreamSynchronize != nullptr && kDriver.cuStreamDestroy_v2 != nullptr;
  if (complete) g_driver.store(&kDriver, std::memory_order_release);
}

bool is_device_memory(const void* memory) {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  if (driver == nullptr) return false;
  const auto address = reinterpret_cast<unsigned long long>(memory);
  unsigned type = 0, managed = 0;
  if (driver->cuPointerGetAttribute(&type, kMemoryType, address) != 0 || type != kOnDevice) return false;
  return driver->cuPointerGetAttribute(&managed, kIsManaged, address) != 0 || managed == 0;
}

/// On a stream of its own: on the default stream it would wait for kernels, which may wait for this rank.
void copy_from_device(void* to, const void* from, size_t bytes) {
  constexpr unsigned kNonBlocking = 1;
  const Driver& driver = *g_driver.load();
  void* stream = nullptr;
  int result = driver.cuStreamCreate(&stream, kNonBlocking);
  if (result == 0) {
    result = driver.cuMemcpyDtoHAsync_v2(to, reinterpret_cast<unsigned long long>(from), bytes, stream);
    if (result == 0) result = driver.cuStreamSynchronize(stream);
    driver.cuStreamDestroy_v2(stream);
  }
  if (result == 0) return;
  refuse(ncclUnhandledCudaError, "the scalar cannot be read from the device: CUDA's error " + std::to_string(result));
}

int current_device() {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  int device = -1;
  return driver != nullptr && driver->cuCtxGetDevice(&device) == 0 ? device : -1;
}

Context::Context() {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  if (driver != nullptr && driver->cuCtxGetCurrent(&context_) != 0) context_ = nullptr;
}

void Context::use() const {
  if (context_ != nullptr) g_driver.load()->cuCtxSetCurrent(context_);
}

}  // namespace tutti::nccl
