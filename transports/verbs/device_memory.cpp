#include "transports/verbs/device_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

namespace tutti::transports::verbs {
namespace {

// Of cuda.h, which not every host has.
constexpr int kMemoryType = 2;       // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kDeviceType = 2;  // CU_MEMORYTYPE_DEVICE
constexpr int kDmaBufHandle = 1;     // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

struct Driver {
  int (*attribute)(void* value, int attribute, uint64_t at) = nullptr;
  int (*handle)(void* handle, uint64_t at, size_t bytes, int type, unsigned long long flags) = nullptr;

  Driver() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    attribute = reinterpret_cast<decltype(attribute)>(::dlsym(library, "cuPointerGetAttribute"));
    handle = reinterpret_cast<decltype(handle)>(::dlsym(library, "cuMemGetHandleForAddressRange"));
  }
};

}  // namespace

ExportedMemory export_device_memory(const void* data, uint64_t bytes) {
  const Driver driver;  // looked for each time: the program may load it late
  const auto at = reinterpret_cast<uint64_t>(data);
  unsigned type = 0;
  if (driver.attribute == nullptr || driver.attribute(&type, kMemoryType, at) != 0 || type != kDeviceType) return {};
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = at / page * page, end = (at + bytes + page - 1) / page * page;
  int fd = -1;
  if (driver.handle == nullptr || driver.handle(&fd, begin, end - begin, kDmaBufHandle, 0) != 0) fd = -1;
  return {
      .is_device = true, .buffer = {.fd = fd, .offset = at - begin, .bytes = bytes, .address = at}, .owner = Fd(fd)};
}

}  // namespace tutti::transports::verbs
