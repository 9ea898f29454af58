// Virtual memory management: physical memory, addresses, and who may use them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "api.hpp"
#include "multicast.hpp"

namespace fake {
namespace {

std::map<uint64_t, std::shared_ptr<Physical>>& handles() {
  static auto& the_handles = *new std::map<uint64_t, std::shared_ptr<Physical>>;
  return the_handles;
}

/// Stands after the last byte of an exported memfd.
struct Label {
  uint64_t magic = 0x7574746966616b65, bytes = 0;
  int device = 0;
  uint32_t multicast = 0;  ///< 1: a multicast object
};

void write_label(const Physical& physical, bool multicast) {
  Label label;
  label.bytes = physical.bytes;
  label.device = physical.device;
  label.multicast = multicast ? 1 : 0;
  require(pwrite(physical.fd, &label, sizeof label, static_cast<off_t>(physical.bytes)) == sizeof label,
          CUDA_ERROR_OUT_OF_MEMORY);
}

/// Of no bytes: there is none.
Label read_label(int fd) {
  const off_t end = lseek(fd, 0, SEEK_END);
  for (const off_t pages : {1, 2}) {  // of memory, of a multicast object
    const off_t at = end - pages * static_cast<off_t>(kPage);
    Label label;
    if (at > 0 && pread(fd, &label, sizeof label, at) == sizeof label && label.magic == Label{}.magic &&
        label.bytes == static_cast<uint64_t>(at) && label.multicast == (pages == 2 ? 1 : 0)) {
      return label;
    }
  }
  return {};
}

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

const std::shared_ptr<Physical>& physical_of(CUmemGenericAllocationHandle handle) {
  const auto found = handles().find(handle);
  require(found != handles().end(), CUDA_ERROR_INVALID_VALUE);
  return found->second;
}

CUmemGenericAllocationHandle keep_handle(const std::shared_ptr<Physical>& physical) {
  handles()[physical->id] = physical;
  return physical->id;
}

std::shared_ptr<Physical> new_team(size_t bytes, uint32_t devices, unsigned handle_types) {
  const int fd = memfd_create("fake_cuda_multicast", MFD_CLOEXEC);
  require(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  auto physical = std::make_shared<Physical>(fd, kNoDevice, bytes, handle_types);
  require(ftruncate(fd, static_cast<off_t>(bytes + 2 * kPage)) == 0, CUDA_ERROR_OUT_OF_MEMORY);
  write_label(*physical, true);
  physical->team = std::make_unique<Team>(fd, bytes + kPage, bytes);
  physical->team->page().devices.store(devices);
  return physical;
}

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
  return call("cuMemCreate", kInitialised | kUnsafe | kDrains, [&](Call&) {
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
    write_label(*physical, false);
    *handle = keep_handle(physical);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", kInitialised | kUnsafe | kDrains, [&](Call&) {
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
  return call("cuMemMap", kInitialised | kUnsafe | kDrains, [&](Call&) {
    const auto& physical = physical_of(handle);
    check_whole(bytes);
    require(physical->team == nullptr || physical->team->is_complete(), CUDA_ERROR_ILLEGAL_STATE);
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
  return call("cuMemUnmap", kInitialised | kUnsafe | kDrains, [&](Call& one) {
    mappings_in(pointer, bytes);
    if (one.context != nullptr) one.drain();
    for (const Mapping* mapping : mappings_in(pointer, bytes)) memory().unmap(mapping->base);
  });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* grants, size_t count) {
  return call("cuMemSetAccess", kInitialised | kUnsafe | kDrains, [&](Call&) {
    require_pointers(grants);
    for (Mapping* mapping : mappings_in(pointer, bytes)) {
      for (size_t i = 0; i < count; ++i) {
        const int device = grants[i].location.id;
        require(grants[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && device >= 0 && device < config().devices,
                CUDA_ERROR_INVALID_DEVICE);
        Team* const team = mapping->physical->team.get();
        require(team != nullptr ? team->has(device)
                                : device == mapping->device || (config().path(device, mapping->device) != Path::None &&
                                                                !config().fails("no_peer", device)),
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
  return call("cuMemImportFromShareableHandle", kInitialised | kUnsafe | kDrains, [&](Call&) {
    require_pointers(handle);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    const int fd = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), F_DUPFD_CLOEXEC, 0);
    require(fd >= 0, CUDA_ERROR_INVALID_VALUE);
    const Label label = read_label(fd);
    const bool labelled = label.bytes != 0;
    auto physical = std::make_shared<Physical>(fd, labelled ? label.device : 0, label.bytes,
                                               static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    require(labelled, CUDA_ERROR_INVALID_VALUE);
    if (label.multicast != 0) physical->team = std::make_unique<Team>(fd, label.bytes + kPage, label.bytes);
    *handle = keep_handle(physical);
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
