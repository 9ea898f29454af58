// Memory as cuMemAlloc and cuMemHostAlloc give it, and cuIpc*.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "api.hpp"

namespace fake {
namespace {

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// What a CUipcMemHandle holds.
struct IpcHandle {
  pid_t pid;
  int fd;
  int device;
  uint64_t inode, bytes, asked;
};
static_assert(sizeof(IpcHandle) <= CU_IPC_HANDLE_SIZE);

uint64_t inode_of(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

Mapping& allocate(Context& context, std::shared_ptr<Physical> physical, size_t asked, Kind kind) {
  Mapping mapping;
  mapping.bytes = physical->bytes;
  mapping.asked = asked;
  mapping.kind = kind;
  mapping.device = physical->device;
  mapping.context = reinterpret_cast<CUcontext>(&context);
  mapping.base = memory().reserve(mapping.bytes, kGranularity);
  require(mapping.base != 0, CUDA_ERROR_OUT_OF_MEMORY);
  mapping.physical = std::move(physical);
  return memory().map(std::move(mapping));
}

Mapping& allocation_at(uintptr_t base, Kind kind) {
  Mapping* const mapping = memory().find(base);
  require(mapping != nullptr && mapping->base == base && mapping->kind == kind, CUDA_ERROR_INVALID_VALUE);
  return *mapping;
}

void host_allocate(Call& one, void** pointer, size_t bytes) {
  require_pointers(pointer);
  require(bytes != 0, CUDA_ERROR_INVALID_VALUE);
  const size_t whole = whole_pages(bytes);
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  Mapping mapping;
  mapping.base = reinterpret_cast<uintptr_t>(at);
  mapping.bytes = whole;
  mapping.asked = bytes;
  mapping.kind = Kind::Host;
  mapping.device = one.context->device;
  mapping.context = reinterpret_cast<CUcontext>(one.context);
  memory().map(std::move(mapping));
  *pointer = at;
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  return call("cuMemAlloc", kContext | kUnsafe | kDrains, [&](Call& one) {
    require_pointers(pointer);
    require(bytes != 0, CUDA_ERROR_INVALID_VALUE);
    auto physical = std::make_shared<Physical>(one.context->device, whole_pages(bytes), 0U);
    *pointer = allocate(*one.context, std::move(physical), bytes, Kind::Malloc).base;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  return call("cuMemFree", kContext | kUnsafe | kDrains, [&](Call& one) {
    if (pointer == 0) return;
    allocation_at(pointer, Kind::Malloc);
    one.drain();  // as the real one does, and as who forgets it must learn here
    allocation_at(pointer, Kind::Malloc);
    memory().unmap(pointer);
    memory().unreserve(pointer);
  });
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return call("cuMemGetInfo", kContext, [&](Call& one) {
    if (free != nullptr) *free = config().memory - memory().used[one.context->device];
    if (total != nullptr) *total = config().memory;
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return call("cuMemGetAddressRange", kContext, [&](Call&) {
    const Mapping* const mapping = memory().find(pointer);
    require(mapping != nullptr && !(config().hides_ranges && mapping->kind == Kind::Vmm), CUDA_ERROR_NOT_FOUND);
    if (base != nullptr) *base = mapping->base;
    if (bytes != nullptr) *bytes = mapping->asked;
  });
}

// ---- memory in the order of a stream, of the device's pool ----

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return call("cuMemAllocAsync", kContext, [&](Call& one) {
    require_pointers(pointer);
    require(bytes != 0, CUDA_ERROR_INVALID_VALUE);
    forbid_capturing(stream_of(one, stream));  // no nodes that allocate, here
    auto physical = std::make_shared<Physical>(one.context->device, whole_pages(bytes), 0U);
    *pointer = allocate(*one.context, std::move(physical), bytes, Kind::Pool).base;
  });
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return call("cuMemFreeAsync", kContext, [&](Call& one) {
    allocation_at(pointer, Kind::Pool);
    Stream& in_order = stream_of(one, stream);
    forbid_capturing(in_order);
    enqueue(in_order, [pointer] {
      memory().unmap(pointer);
      memory().unreserve(pointer);
      return true;
    });
  });
}

// ---- host memory ------------------------------------------------------------------------------------------

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  return call("cuMemHostAlloc", kContext | kUnsafe | kDrains, [&](Call& one) { host_allocate(one, pointer, bytes); });
}

CUresult cuMemAllocHost(void** pointer, size_t bytes) {
  return call("cuMemAllocHost", kContext | kUnsafe | kDrains, [&](Call& one) { host_allocate(one, pointer, bytes); });
}

CUresult cuMemFreeHost(void* pointer) {
  return call("cuMemFreeHost", kContext | kUnsafe | kDrains, [&](Call& one) {
    const auto base = reinterpret_cast<uintptr_t>(pointer);
    allocation_at(base, Kind::Host);
    one.drain();
    const size_t bytes = allocation_at(base, Kind::Host).bytes;
    memory().unmap(base);
    munmap(pointer, bytes);
  });
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned) {
  return call("cuMemHostRegister", kContext | kUnsafe | kDrains, [&](Call& one) {
    require_pointers(pointer);
    require(bytes != 0, CUDA_ERROR_INVALID_VALUE);
    require(memory().find(reinterpret_cast<uintptr_t>(pointer)) == nullptr, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    Mapping mapping;
    mapping.base = reinterpret_cast<uintptr_t>(pointer);
    mapping.bytes = mapping.asked = bytes;
    mapping.kind = Kind::Registered;
    mapping.device = one.context->device;
    mapping.context = reinterpret_cast<CUcontext>(one.context);
    memory().map(std::move(mapping));
  });
}

CUresult cuMemHostUnregister(void* pointer) {
  return call("cuMemHostUnregister", kContext | kUnsafe | kDrains, [&](Call& one) {
    const auto base = reinterpret_cast<uintptr_t>(pointer);
    const Mapping* const mapping = memory().find(base);
    require(mapping != nullptr && mapping->base == base && mapping->kind == Kind::Registered,
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    one.drain();
    memory().unmap(base);
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  return call("cuMemHostGetDevicePointer", kContext, [&](Call&) {
    require_pointers(device);
    const Mapping* const mapping = memory().find(reinterpret_cast<uintptr_t>(host));
    require(mapping != nullptr && mapping->on_host(), CUDA_ERROR_INVALID_VALUE);
    *device = reinterpret_cast<CUdeviceptr>(host);
  });
}

// ---- other processes --------------------------------------------------------------------------------------

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  return call("cuIpcGetMemHandle", kContext, [&](Call& one) {
    require_pointers(handle);
    require(!config().fails("no_ipc", one.context->device), CUDA_ERROR_NOT_SUPPORTED);
    const Mapping* const mapping = memory().find(pointer);
    require(mapping != nullptr && mapping->kind == Kind::Malloc, CUDA_ERROR_INVALID_VALUE);
    const int fd = mapping->physical->fd;
    const IpcHandle content{getpid(), fd, mapping->device, inode_of(fd), mapping->bytes, mapping->asked};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &content, sizeof content);
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  return call("cuIpcOpenMemHandle", kContext | kUnsafe | kDrains, [&](Call& one) {
    require_pointers(pointer);
    require(flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    IpcHandle content;
    std::memcpy(&content, &handle, sizeof content);
    require(content.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);  // its own memory needs no handle
    const int me = one.context->device;
    require(content.device >= 0 && content.device < config().devices, CUDA_ERROR_INVALID_VALUE);
    require(content.device == me || (config().path(me, content.device) != Path::None && !config().fails("no_peer", me)),
            CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", content.pid, content.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    require(fd >= 0, CUDA_ERROR_INVALID_VALUE);
    auto physical = std::make_shared<Physical>(fd, content.device, content.bytes, 0U);
    require(inode_of(fd) == content.inode, CUDA_ERROR_INVALID_VALUE);
    Mapping& mapping = allocate(*one.context, std::move(physical), content.asked, Kind::Ipc);
    mapping.writers = 1U << me;
    *pointer = mapping.base;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return call("cuIpcCloseMemHandle", kContext | kUnsafe | kDrains, [&](Call& one) {
    allocation_at(pointer, Kind::Ipc);
    one.drain();
    memory().unmap(pointer);
    memory().unreserve(pointer);
  });
}
