// Green contexts: some multiprocessors of a device, with streams of their own. Memory is that of the device.
#include <algorithm>
#include <cstring>

#include "api.hpp"

namespace fake {
namespace {

/// What a resource says beyond the header's fields; in its padding.
struct Part {
  int device = 0;
  uint32_t first = 0;
};

/// CUDA 12.4 has no such fields.
template <class Sm>
void set_least(Sm& sm) {
  if constexpr (requires { sm.minSmPartitionSize; }) sm.minSmPartitionSize = sm.smCoscheduledAlignment = 1;
}

CUdevResource resource_of(int device, uint32_t first, uint32_t count) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  const Part part{device, first};
  std::memcpy(resource._internal_padding, &part, sizeof part);
  resource.sm.smCount = count;
  set_least(resource.sm);
  return resource;
}

Part part_of(const CUdevResource& resource) {
  require(resource.type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  Part part;
  std::memcpy(&part, resource._internal_padding, sizeof part);
  return part;
}

std::list<CUdevResource>& descriptors() {
  static auto& the_descriptors = *new std::list<CUdevResource>;
  return the_descriptors;
}

Context& green_of(CUgreenCtx handle) {
  Context* const context = state().find(reinterpret_cast<CUcontext>(handle));
  require(context != nullptr && context->green, CUDA_ERROR_INVALID_CONTEXT);
  return *context;
}

CUdevResource resource_of(const Context& context) {
  return resource_of(context.device, context.first_multiprocessor,
                     context.green ? context.multiprocessors : config().multiprocessors);
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  return call("cuDeviceGetDevResource", kInitialised, [&](Call&) {
    require_pointers(resource);
    require(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    require(device >= 0 && device < config().devices, CUDA_ERROR_INVALID_DEVICE);
    *resource = resource_of(device, 0, config().multiprocessors);
  });
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  return call("cuCtxGetDevResource", kInitialised, [&](Call&) {
    require_pointers(resource);
    require(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    const Context* const context = state().find(handle);
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    *resource = resource_of(*context);
  });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned, unsigned least) {
  return call("cuDevSmResourceSplitByCount", kInitialised, [&](Call&) {
    require_pointers(groups, input);
    const Part part = part_of(*input);
    require(least > 0 && least <= input->sm.smCount, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    *groups = result == nullptr ? input->sm.smCount / least : std::min(*groups, input->sm.smCount / least);
    for (unsigned i = 0; result != nullptr && i < *groups; ++i) {
      result[i] = resource_of(part.device, part.first + i * least, least);
    }
    const uint32_t used = *groups * least;
    if (remaining != nullptr) *remaining = resource_of(part.device, part.first + used, input->sm.smCount - used);
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* descriptor, CUdevResource* resources, unsigned count) {
  return call("cuDevResourceGenerateDesc", kInitialised, [&](Call&) {
    require_pointers(descriptor, resources);
    require(count == 1, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);  // no unions of several, here
    part_of(*resources);
    descriptors().push_back(*resources);
    *descriptor = reinterpret_cast<CUdevResourceDesc>(&descriptors().back());
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* handle, CUdevResourceDesc descriptor, CUdevice device, unsigned flags) {
  return call("cuGreenCtxCreate", kInitialised | kUnsafe | kDrains, [&](Call&) {
    require_pointers(handle);
    require(flags == CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
    const auto found = std::find_if(descriptors().begin(), descriptors().end(), [&](const CUdevResource& one) {
      return reinterpret_cast<CUdevResourceDesc>(const_cast<CUdevResource*>(&one)) == descriptor;
    });
    require(found != descriptors().end(), CUDA_ERROR_INVALID_VALUE);
    const Part part = part_of(*found);
    require(part.device == device, CUDA_ERROR_INVALID_DEVICE);
    auto context = new_context(device);
    context->green = true;
    context->first_multiprocessor = part.first;
    context->multiprocessors = found->sm.smCount;
    *handle = reinterpret_cast<CUgreenCtx>(context.get());
    state().others.push_back(std::move(context));
  });
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  return call("cuGreenCtxDestroy", kInitialised | kUnsafe, [&](Call& one) {
    Context* const context = &green_of(handle);
    state().done.wait(one.lock, [&] { return context->error != CUDA_SUCCESS || idle(context); });
    std::erase_if(state().functions, [&](const auto& function) { return function->context == context; });
    std::erase_if(state().events, [&](const auto& event) { return event->context == context; });
    std::erase_if(state().others, [&](const auto& other) { return other.get() == context; });
  });
}

// The same object, under another name.
CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  return call("cuCtxFromGreenCtx", kInitialised, [&](Call&) {
    require_pointers(context);
    *context = reinterpret_cast<CUcontext>(&green_of(handle));
  });
}

// After CUDA 12.4.
extern "C" CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle, unsigned flags, int priority) {
  return call("cuGreenCtxStreamCreate", kInitialised, [&](Call&) {
    require_pointers(stream);
    require(flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    *stream = reinterpret_cast<CUstream>(&new_stream(green_of(handle), flags, priority));
  });
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* green) {
  return call("cuStreamGetGreenCtx", kContext, [&](Call& one) {
    require_pointers(green);
    Context* const context = stream_of(one, handle).context;
    *green = context->green ? reinterpret_cast<CUgreenCtx>(context) : nullptr;
  });
}
