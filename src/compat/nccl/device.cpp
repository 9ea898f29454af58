#include "compat/nccl/device.hpp"

#include <dlfcn.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

// Of cuda.h.
constexpr int kMemoryType = 2, kIsManaged = 8;
constexpr unsigned kOnDevice = 2;

/// Functions of the driver, and whether it has all of them.
struct Driver {
  bool is_complete = true;
  int (*cuCtxGetDevice)(int*);
  int (*cuCtxGetCurrent)(void**);
  int (*cuCtxSetCurrent)(void*);
  int (*cuPointerGetAttribute)(void* out, int attribute, unsigned long long pointer);
  int (*cuDeviceGetCount)(int*);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuDevicePrimaryCtxRelease)(int);
};

/// Null where no driver is loaded.
std::atomic<const Driver*> g_driver{nullptr};

/// The GPU's primary context, which this library then holds once for the process, however often it is asked for. CUDA's
/// runtime holds it once too: when the program resets the GPU or releases what it holds, no count of ours is left over.
int primary_context(const Driver& driver, int device, void** context) {
  static std::mutex mutex;
  static auto& held = *new std::map<int, void*>;
  const std::lock_guard lock(mutex);
  const int result = driver.cuDevicePrimaryCtxRetain(context, device);
  if (result != 0) return result;
  void*& mine = held[device];
  if (mine == *context) driver.cuDevicePrimaryCtxRelease(device);
  mine = *context;
  return result;
}

}  // namespace

bool has_driver() { return g_driver.load(std::memory_order_relaxed) != nullptr; }

void find_driver() {
  if (g_driver.load(std::memory_order_acquire) != nullptr) return;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  static const Driver kDriver = [&] {
    Driver driver{};
    const auto find = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      driver.is_complete &= function != nullptr;
    };
    find(driver.cuCtxGetDevice, "cuCtxGetDevice");
    find(driver.cuCtxGetCurrent, "cuCtxGetCurrent");
    find(driver.cuCtxSetCurrent, "cuCtxSetCurrent");
    find(driver.cuPointerGetAttribute, "cuPointerGetAttribute");
    find(driver.cuDeviceGetCount, "cuDeviceGetCount");
    find(driver.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(driver.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    return driver;
  }();
  if (kDriver.is_complete) g_driver.store(&kDriver, std::memory_order_release);
}

bool is_device_memory(const void* memory) {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<unsigned long long>(memory);
  unsigned type = 0, managed = 0;
  if (driver->cuPointerGetAttribute(&type, kMemoryType, address) != 0 || type != kOnDevice) return false;
  return driver->cuPointerGetAttribute(&managed, kIsManaged, address) != 0 || managed == 0;
}

int current_device() {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  int device = -1;
  if (driver == nullptr) return -1;
  if (driver->cuCtxGetDevice(&device) == 0) return device;
  void* context = nullptr;
  const bool has_chosen = driver->cuCtxGetCurrent(&context) != 0 || context != nullptr;
  if (has_chosen || device_count() == 0 || primary_context(*driver, 0, &context) != 0) return -1;
  return driver->cuCtxSetCurrent(context) == 0 ? 0 : -1;
}

int device_count() {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  int count = 0;
  return driver != nullptr && driver->cuDeviceGetCount(&count) == 0 ? count : 0;
}

Context::Context() {
  const Driver* const driver = g_driver.load(std::memory_order_acquire);
  if (driver != nullptr && driver->cuCtxGetCurrent(&context_) != 0) context_ = nullptr;
}

Context::Context(int device) {
  const int result = primary_context(*g_driver.load(), device, &context_);
  if (result == 0) return;
  refuse(ncclUnhandledCudaError, "GPU ", device, " cannot be used: CUDA's error ", result);
}

void Context::use() const {
  if (has_driver()) g_driver.load()->cuCtxSetCurrent(context_);
}

}  // namespace tutti::nccl
