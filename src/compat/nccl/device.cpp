#include "compat/nccl/device.hpp"

#include <dlfcn.h>

#include <string>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {

std::atomic<PointerQuery> g_pointer_query{nullptr};

namespace {

std::atomic<int (*)(int*)> g_current_device{nullptr};

// Of cuda.h.
constexpr int kMemoryType = 2, kIsManaged = 8;
constexpr unsigned kOnDevice = 2;

}  // namespace

void find_driver() {
  if (g_pointer_query.load(std::memory_order_acquire) != nullptr) return;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  g_current_device = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuCtxGetDevice"));
  g_pointer_query = reinterpret_cast<PointerQuery>(dlsym(driver, "cuPointerGetAttribute"));
}

void refuse_device_memory(const void* buffer, const char* name) {
  const PointerQuery query = g_pointer_query;
  const auto address = reinterpret_cast<unsigned long long>(buffer);
  unsigned type = 0, managed = 0;
  if (query(&type, kMemoryType, address) != 0 || type != kOnDevice) return;
  if (query(&managed, kIsManaged, address) == 0 && managed != 0) return;
  refuse(ncclInvalidUsage,
         std::string(name) +
             " is device memory: this build of Tutti moves host memory only. Use NVIDIA's libnccl, or "
             "copy to host memory first");
}

int current_device() {
  const auto ask = g_current_device.load();
  int device = -1;
  return ask != nullptr && ask(&device) == 0 ? device : -1;
}

}  // namespace tutti::nccl
