// What is known of an address.
#include "api.hpp"

namespace fake {
namespace {

template <class Value>
void put(void* data, Value value) {
  *static_cast<Value*>(data) = value;
}

uint64_t handle_types(const Mapping& mapping) {
  return mapping.physical == nullptr ? 0 : mapping.physical->handle_types;
}

// What a pointer that is not the driver's has: nothing. Null: fail instead.
CUresult get(CUpointer_attribute what, void* data, uintptr_t at, const Mapping* mapping, int device) {
  const bool known = mapping != nullptr;
  if (!known) {
    switch (what) {
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_MAPPED:
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        put<bool>(data, false);
        return CUDA_ERROR_INVALID_VALUE;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put<unsigned>(data, 0);
        return CUDA_ERROR_INVALID_VALUE;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put<int>(data, -2);
        return CUDA_ERROR_INVALID_VALUE;
      default:
        put<uint64_t>(data, 0);
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(data, mapping->context);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put<unsigned>(data, mapping->on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put<CUdeviceptr>(data, at);
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      put<uintptr_t>(data, mapping->on_host() ? at : 0);
      if (!mapping->on_host()) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put<uint64_t>(data, mapping->buffer_id);
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put<bool>(data, false);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(data, mapping->device);
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      put<bool>(data, mapping->kind == Kind::Malloc);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put<CUdeviceptr>(data, mapping->base);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put<size_t>(data, mapping->asked);
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put<bool>(data, true);
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      put<uint64_t>(data, handle_types(*mapping));
      break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      put<bool>(data, !mapping->on_host() && !config().fails("no_dmabuf", mapping->device));
      break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put<unsigned>(data, memory().may_write(*mapping, device)  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                          : memory().may_read(*mapping, device) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                                : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put<void*>(data, nullptr);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      put<uint64_t>(data, mapping->physical == nullptr ? mapping->buffer_id : mapping->physical->id);
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

int device_of(const Call& one) { return one.context == nullptr ? -1 : one.context->device; }

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute what, CUdeviceptr pointer) {
  return call("cuPointerGetAttribute", kInitialised, [&](Call& one) {
    require_pointers(data);
    const CUresult result = get(what, data, pointer, memory().find(pointer), device_of(one));
    require(result == CUDA_SUCCESS, result);
  });
}

// Asked for several, it reports success for any address: what is not known is null.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* what, void** data, CUdeviceptr pointer) {
  return call("cuPointerGetAttributes", kInitialised, [&](Call& one) {
    require_pointers(what, data);
    const Mapping* const mapping = memory().find(pointer);
    for (unsigned i = 0; i < count; ++i) get(what[i], data[i], pointer, mapping, device_of(one));
  });
}
