// Devices and contexts.
#include <cstdio>
#include <cstring>

#include "api.hpp"

namespace fake {
namespace {

void check_device(CUdevice device) { require(device >= 0 && device < config().devices, CUDA_ERROR_INVALID_DEVICE); }

int attribute(CUdevice_attribute what, int device) {
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return config().capability(device) / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return config().capability(device) % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(config().multiprocessors);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7FFFFFFF;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return Occupancy::kThreads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return Occupancy::kBlocks;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return Occupancy::kRegisters;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return Occupancy::kShared;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return Occupancy::kSharedOfBlock;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return Occupancy::kReserved;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return 0x10 + device;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
      return config().fails("no_64_bit", device) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
      return config().fails("no_flush", device) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return config().fails("no_vmm", device) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return config().fails("no_export", device) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      return config().has_multicast(device) ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
      return config().fails("no_dmabuf", device) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      return config().fails("rdma_unordered", device) ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE
                                                      : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      return CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    default:
      return 0;  // fabric handles, managed memory, memory pools: none of them
  }
}

}  // namespace

std::unique_ptr<Context> new_context(int device) {
  auto context = std::make_unique<Context>();
  context->device = device;
  context->legacy = std::make_unique<Stream>();
  context->legacy->context = context.get();
  context->legacy->legacy = true;
  context->legacy->queue = context->next_queue++ % config().queues;
  return context;
}

}  // namespace fake

using namespace fake;

CUresult cuInit(unsigned flags) {
  return call("cuInit", kNothing, [&](Call&) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(config().devices > 0, CUDA_ERROR_NO_DEVICE);
    if (state().initialised) return;
    state().initialised = true;
    state().primaries.resize(config().devices);
    for (int i = 0; i < config().devices; ++i) {
      state().machines.push_back(std::make_unique<Machine>(i, config().multiprocessors));
    }
    start_engine();
  });
}

CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", kNothing, [&](Call&) {
    require_pointers(version);
    *version = config().version;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", kInitialised, [&](Call&) {
    require_pointers(count);
    *count = config().devices;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", kInitialised, [&](Call&) {
    require_pointers(device);
    check_device(ordinal);
    *device = ordinal;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call("cuDeviceGetName", kInitialised, [&](Call&) {
    check_device(device);
    std::snprintf(name, length, "Fake H200");
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid", kInitialised, [&](Call&) {
    check_device(device);
    std::memset(uuid->bytes, 0, sizeof uuid->bytes);
    std::memcpy(uuid->bytes, "fake-gpu", 8);
    std::memcpy(uuid->bytes + 8, &device, sizeof device);
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return call("cuDeviceGetPCIBusId", kInitialised, [&](Call&) {
    check_device(device);
    std::snprintf(text, length, "0000:%02X:00.0", 0x10 + device);
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return call("cuDeviceTotalMem", kInitialised, [&](Call&) {
    check_device(device);
    *bytes = config().memory;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice device) {
  return call("cuDeviceGetAttribute", kInitialised, [&](Call&) {
    require_pointers(value);
    check_device(device);
    *value = attribute(what, device);
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return call("cuDeviceCanAccessPeer", kInitialised, [&](Call&) {
    check_device(device);
    check_device(peer);
    *can = config().path(device, peer) != Path::None && !config().fails("no_peer", device) ? 1 : 0;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute what, CUdevice from, CUdevice to) {
  return call("cuDeviceGetP2PAttribute", kInitialised, [&](Call&) {
    check_device(from);
    check_device(to);
    require(from != to, CUDA_ERROR_INVALID_DEVICE);
    const Path path = config().path(from, to);
    switch (what) {
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = path == Path::NvLink ? 1 : 0;
        return;
      default:
        *value = path != Path::None && !config().fails("no_peer", from) ? 1 : 0;
    }
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", kInitialised, [&](Call&) {
    require_pointers(handle);
    check_device(device);
    auto& context = state().primaries[device];
    if (context == nullptr) {
      context = new_context(device);
      context->primary = true;
    }
    ++context->uses;
    *handle = reinterpret_cast<CUcontext>(context.get());
  });
}

namespace {

// Everything of a context goes with it.
void end_context(Call& one, std::unique_ptr<Context> context) {
  set_error(*context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  const auto handle = reinterpret_cast<CUcontext>(context.get());
  std::vector<uintptr_t> mappings;
  for (auto& [base, mapping] : memory().mappings()) {
    if (mapping.context == handle && mapping.kind != Kind::Vmm) mappings.push_back(base);
  }
  for (const uintptr_t base : mappings) memory().unmap(base);
  std::erase_if(state().events, [&](const auto& event) { return event->context == context.get(); });
  std::erase_if(state().functions, [&](const auto& function) { return function->context == context.get(); });
  memory().peers[context->device] = 0;
  (void)one;
}

}  // namespace

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", kInitialised, [&](Call& one) {
    check_device(device);
    auto& context = state().primaries[device];
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    if (--context->uses != 0) return;
    Context* const raw = context.get();
    state().done.wait(one.lock, [&] { return raw->error != CUDA_SUCCESS || idle(raw); });
    end_context(one, std::move(context));
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return call("cuDevicePrimaryCtxReset", kInitialised, [&](Call& one) {
    check_device(device);
    auto& context = state().primaries[device];
    if (context == nullptr) return;
    end_context(one, std::move(context));
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", kInitialised, [&](Call&) {
    check_device(device);
    *flags = 0;
    *active = state().primaries[device] != nullptr;
  });
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  return call("cuCtxGetCurrent", kInitialised, [&](Call& one) { *handle = reinterpret_cast<CUcontext>(one.context); });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return call("cuCtxSetCurrent", kInitialised, [&](Call&) {
    auto& stack = current_contexts();
    if (!stack.empty()) stack.pop_back();
    if (handle == nullptr) return;
    Context* const context = state().find(handle);
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    stack.push_back(context);
  });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return call("cuCtxPushCurrent", kInitialised, [&](Call&) {
    Context* const context = state().find(handle);
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    current_contexts().push_back(context);
  });
}

CUresult cuCtxPopCurrent(CUcontext* handle) {
  return call("cuCtxPopCurrent", kInitialised, [&](Call& one) {
    require(one.context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    if (handle != nullptr) *handle = reinterpret_cast<CUcontext>(one.context);
    current_contexts().pop_back();
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", kContext, [&](Call& one) { *device = one.context->device; });
}

CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", kContext | kUnsafe, [&](Call& one) { one.drain(); });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", kContext, [&](Call&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatestPriority;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  return call("cuCtxEnablePeerAccess", kContext | kDrains, [&](Call& one) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    const Context* const peer = state().find(handle);
    require(peer != nullptr && peer != one.context, CUDA_ERROR_INVALID_CONTEXT);
    require(config().path(one.context->device, peer->device) != Path::None &&
                !config().fails("no_peer", one.context->device),
            CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    uint32_t& peers = memory().peers[one.context->device];
    require((peers >> peer->device & 1) == 0, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    peers |= 1U << peer->device;
    memory().changed();
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return call("cuCtxDisablePeerAccess", kContext, [&](Call& one) {
    const Context* const peer = state().find(handle);
    require(peer != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    uint32_t& peers = memory().peers[one.context->device];
    require((peers >> peer->device & 1) != 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    peers &= ~(1U << peer->device);
    memory().changed();
  });
}
