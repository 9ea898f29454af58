// Multicast objects. Where the driver would wait for other processes (binding and mapping, until all devices have been
// added), this one fails: who calls it too early would hang.
#include <unistd.h>

#include "api.hpp"
#include "multicast.hpp"

using namespace fake;

CUresult cuMulticastGetGranularity(size_t* bytes, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags) {
  return call("cuMulticastGetGranularity", kInitialised, [&](Call&) {
    require_pointers(bytes, properties);
    *bytes = kGranularity;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  return call("cuMulticastCreate", kInitialised | kUnsafe | kDrains, [&](Call&) {
    require_pointers(handle, properties);
    require(properties->flags == 0 && properties->size != 0 && properties->size % kGranularity == 0 &&
                properties->numDevices >= 1 && properties->numDevices <= TeamPage::kMax &&
                (properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0,
            CUDA_ERROR_INVALID_VALUE);
    bool any = false;
    for (int device = 0; device < config().devices; ++device) any = any || config().has_multicast(device);
    require(any, CUDA_ERROR_NOT_SUPPORTED);
    const auto physical =
        new_team(properties->size, properties->numDevices, static_cast<unsigned>(properties->handleTypes));
    *handle = keep_handle(physical);
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return call("cuMulticastAddDevice", kInitialised | kUnsafe, [&](Call&) {
    Team* const team = physical_of(handle)->team.get();
    require(team != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(device >= 0 && device < config().devices, CUDA_ERROR_INVALID_DEVICE);
    require(config().has_multicast(device), CUDA_ERROR_INVALID_DEVICE);
    require(!team->is_complete() && !team->has(device), CUDA_ERROR_INVALID_VALUE);
    team->page().added.fetch_or(1U << device);
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes) {
  return call("cuMulticastUnbind", kInitialised | kUnsafe | kDrains, [&](Call&) {
    const auto& object = physical_of(handle);
    require(object->team != nullptr && offset == 0 && bytes == object->bytes, CUDA_ERROR_INVALID_VALUE);
    require(object->team->unbind(device), CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
                            size_t memory_offset, size_t bytes, unsigned long long flags) {
  return call("cuMulticastBindMem", kInitialised | kUnsafe | kDrains, [&](Call&) {
    const auto& object = physical_of(handle);
    const auto& bound = physical_of(memory);
    require(object->team != nullptr && bound->team == nullptr, CUDA_ERROR_INVALID_VALUE);
    require(object->team->is_complete(), CUDA_ERROR_ILLEGAL_STATE);
    require(flags == 0 && offset == 0 && memory_offset == 0 && bytes == object->bytes && bytes <= bound->bytes,
            CUDA_ERROR_INVALID_VALUE);  // no parts of either, here
    require((object->handle_types & ~bound->handle_types) == 0, CUDA_ERROR_INVALID_VALUE);
    require(object->team->has(bound->device), CUDA_ERROR_INVALID_DEVICE);
    require(!config().fails("no_bind", bound->device), CUDA_ERROR_OUT_OF_MEMORY);
    object->team->bind(bound);
  });
}
