// Virtual memory management: physical memory, addresses, and who may use them.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "api.hpp"

namespace fake {
namespace {

std::map<uint64_t, std::shared_ptr<Physical>>& handles() {
  static auto& the_handles = *new std::map<uint64_t, std::shared_ptr<Physical>>;
  return the_handles;
}

const std::shared_ptr<Physical>& physical_of(CUmemGenericAllocationHandle handle) {
  const auto found = handles().find(handle);
  require(found != handles().end(), CUDA_ERROR_INVALID_VALUE);
  return found->second;
}

/// Stands after the last byte of an exported memfd.
struct Label {
  uint64_t magic = 0x7574746966616b65, bytes = 0;
  int device = 0;
};

std::vector<Mapping*> mappings_in(uintptr_t at, size_t bytes) {
  std::vector<Mapping*> all;
  for (uintptr_t next = at; next < at + bytes; next = all.back()->base + all.back()->bytes) {
    Mapping* const mapping = memory().find(next);
    require(mapping != nullptr && mapping->base == next && mapping->kind == Kind::Vmm, CUDA_ERROR_INVALID_VALUE);
    all.push_back(mapping);
  }
  require(!all.empty() && all.back()->base + all.back()->bytes == at + bytes, CUDA_ERROR_INVALID_VALUE);
  return all;
}

void check_whole(size_t bytes) { require(bytes != 0 && bytes % kGranularity == 0, CUDA_ERROR_INVALID_VALUE); }

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return call("cuMemGetAllocationGranularity", kInitialised, [&](Call&) {
    require_pointers(bytes, properties);
    *bytes = kGranularity;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return call("cuMemCreate", kInitialised | kUnsafe, [&](Call&) {
    require_pointers(handle, properties);
    require(flags == 0 && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
                properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE,
            CUDA_ERROR_INVALID_VALUE);
    const int device = properties->location.id;
    require(device >= 0 && device < config().devices, CUDA_ERROR_INVALID_DEVICE);
    require((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0 &&
                !config().fails("no_vmm", device),
            CUDA_ERROR_NOT_SUPPORTED);
    check_whole(bytes);
    auto physical = std::make_shared<Physical>(device, bytes, properties->requestedHandleTypes);
    Label label;
    label.bytes = bytes;
    label.device = device;
    require(pwrite(physical->fd, &label, sizeof label, static_cast<off_t>(bytes)) == sizeof label,
            CUDA_ERROR_OUT_OF_MEMORY);
    *handle = physical->id;
    handles()[*handle] = std::move(physical);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", kInitialised | kUnsafe, [&](Call&) {
    physical_of(handle);
    handles().erase(handle);
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long) {
  return call("cuMemAddressReserve", kInitialised, [&](Call&) {
    require_pointers(pointer);
    check_whole(bytes);
    *pointer = memory().reserve(bytes, std::max(alignment, kGranularity));
    require(*pointer != 0, CUDA_ERROR_OUT_OF_MEMORY);
  });
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  return call("cuMemAddressFree", kInitialised, [&](Call&) {
    require(memory().reserved(pointer) == bytes, CUDA_ERROR_INVALID_VALUE);
    for (const auto& [base, mapping] : memory().mappings()) {
      require(base < pointer || base >= pointer + bytes, CUDA_ERROR_INVALID_VALUE);  // still mapped
    }
    memory().unreserve(pointer);
  });
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return call("cuMemMap", kInitialised | kUnsafe, [&](Call&) {
    const auto& physical = physical_of(handle);
    check_whole(bytes);
    require(flags == 0 && offset == 0 && bytes <= physical->bytes && pointer % kGranularity == 0 &&
                memory().within_reservation(pointer, bytes) && memory().find(pointer) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
    Mapping mapping;
    mapping.base = pointer;
    mapping.bytes = mapping.asked = bytes;
    mapping.kind = Kind::Vmm;
    mapping.device = physical->device;
    mapping.physical = physical;
    memory().map(std::move(mapping));
  });
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  return call("cuMemUnmap", kInitialised | kUnsafe, [&](Call& one) {
    mappings_in(pointer, bytes);
    if (one.context != nullptr) one.drain();
    for (const Mapping* mapping : mappings_in(pointer, bytes)) memory().unmap(mapping->base);
  });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* grants, size_t count) {
  return call("cuMemSetAccess", kInitialised | kUnsafe, [&](Call&) {
    require_pointers(grants);
    for (Mapping* mapping : mappings_in(pointer, bytes)) {
      for (size_t i = 0; i < count; ++i) {
        const int device = grants[i].location.id;
        require(grants[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && device >= 0 && device < config().devices,
                CUDA_ERROR_INVALID_DEVICE);
        require(device == mapping->device ||
                    (config().path(device, mapping->device) != Path::None && !config().fails("no_peer", device)),
                CUDA_ERROR_INVALID_DEVICE);
        const uint32_t bit = 1U << device;
        mapping->readers &= ~bit;
        mapping->writers &= ~bit;
        if (grants[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) mapping->readers |= bit;
        if (grants[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) mapping->writers |= bit;
      }
    }
    memory().changed();
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  return call("cuMemGetAccess", kInitialised, [&](Call&) {
    require_pointers(flags, location);
    const Mapping* const mapping = memory().find(pointer);
    require(mapping != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = memory().may_write(*mapping, location->id)  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : memory().may_read(*mapping, location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  });
}

CUresult cuMemExportToShareableHandle(void* handle, CUmemGenericAllocationHandle allocation,
                                      CUmemAllocationHandleType type, unsigned long long) {
  return call("cuMemExportToShareableHandle", kInitialised, [&](Call&) {
    require_pointers(handle);
    const auto& physical = physical_of(allocation);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !config().fails("no_export", physical->device),
            CUDA_ERROR_NOT_SUPPORTED);
    require((physical->handle_types & type) != 0, CUDA_ERROR_INVALID_VALUE);  // not asked for when it was created
    const int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    *static_cast<int*>(handle) = fd;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  return call("cuMemImportFromShareableHandle", kInitialised | kUnsafe, [&](Call&) {
    require_pointers(handle);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    const int fd = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), F_DUPFD_CLOEXEC, 0);
    require(fd >= 0, CUDA_ERROR_INVALID_VALUE);
    const off_t end = lseek(fd, 0, SEEK_END);
    Label label;
    label.magic = 0;
    const bool labelled = end > static_cast<off_t>(kPage) &&
                          pread(fd, &label, sizeof label, end - static_cast<off_t>(kPage)) == sizeof label &&
                          label.magic == Label{}.magic;
    auto physical = std::make_shared<Physical>(fd, labelled ? label.device : 0, label.bytes,
                                               static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    require(labelled, CUDA_ERROR_INVALID_VALUE);
    *handle = physical->id;
    handles()[*handle] = std::move(physical);
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return call("cuMemRetainAllocationHandle", kInitialised, [&](Call&) {
    const Mapping* const mapping = memory().find(reinterpret_cast<uintptr_t>(address));
    require(mapping != nullptr && mapping->kind == Kind::Vmm, CUDA_ERROR_INVALID_VALUE);
    *handle = new_id();
    handles()[*handle] = mapping->physical;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return call("cuMemGetAllocationPropertiesFromHandle", kInitialised, [&](Call&) {
    require_pointers(properties);
    const auto& physical = physical_of(handle);
    std::memset(properties, 0, sizeof *properties);
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(physical->handle_types);
    properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, physical->device};
  });
}
