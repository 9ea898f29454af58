// Registers the module `cuda`: links between GPUs, and the executor for their memory.
#include <fmt/format.h>

#include "base/format.hpp"
#include "exec/cuda/cuda_executor.hpp"
#include "exec/cuda/kernels.hpp"
#include "transports/cuda/multicast.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::Device;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

std::string state() {
  const std::string why_not = tutti::cuda::why_no_driver();
  if (!why_not.empty()) return "not usable: " + why_not;
  int count = 0, version = 0;
  driver().cuDeviceGetCount(&count);
  driver().cuDriverGetVersion(&version);
  std::string text = "usable: ";
  bool all_multicast = true;
  for (int i = 0; i < count; ++i) {
    const Device& device = Device::get(i);
    text += (i > 0 ? ", " : "") + device.name();
    all_multicast = all_multicast && tutti::cuda::why_no_multicast(device).empty();
  }
  return fmt::format("{}; driver for CUDA {}.{}{}", text, version / 1000, version % 1000 / 10,
                     all_multicast ? "; multicast memory (NVLink SHARP)" : "");
}

class CudaModule final : public DeviceModule {
 public:
  int current() override { return Device::current(); }

  Pointer look_up(const void* address) override {
    CUmemorytype type{};
    int device = -1;
    unsigned int managed = 0;
    unsigned long long id = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void* values[] = {&type, &device, &managed, &id};
    const auto at = reinterpret_cast<CUdeviceptr>(address);
    if (address == nullptr || driver().cuPointerGetAttributes(4, attributes, values, at) != CUDA_SUCCESS) return {};
    if (type != CU_MEMORYTYPE_DEVICE) return {};
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    const WithContext with(Device::get(device).context());
    tutti::cuda::check(driver().cuMemGetAddressRange(&begin, &bytes, at), "the extent of an allocation");
    return {Pointer::Kind::Device, device, begin, bytes, id};
  }

  std::unique_ptr<DeviceExecutor> make(const DeviceContext& context) override {
    return std::make_unique<CudaExecutor>(context);
  }

  void* allocate(uint64_t bytes) override {
    const int device = Device::current();
    if (device < 0) throw_error(Code::InvalidUsage, "this thread uses no GPU: make one current (cudaSetDevice) first");
    const WithContext with(Device::get(device).context());
    CUdeviceptr memory = 0;
    tutti::cuda::check(driver().cuMemAlloc(&memory, bytes), "memory of the GPU");
    return reinterpret_cast<void*>(memory);
  }

  void release(void* memory) override {
    const Pointer known = look_up(memory);
    if (known.kind != Pointer::Kind::Device) throw_error(Code::InvalidArgument, "this is no memory of a GPU");
    const WithContext with(Device::get(known.device).context());
    tutti::cuda::check(driver().cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "memory of the GPU");
  }
};

CudaModule cuda_module;

const transports::TransportRegistration cuda(
    {.name = "cuda",
     .summary = "GPUs that reach each other's memory; for calls on device memory",
     .preference = 90,
     .make = [](const transports::Context& context) -> std::unique_ptr<transports::Transport> {
       const Device& device = Device::get(std::max(0, Device::current()));
       return std::make_unique<tutti::cuda::CudaLinks>(*context.wireup, device,
                                                       tutti::cuda::link_sizes(context.wireup->ranks(), 1));
     },
     .device = &cuda_module,
     .state = state});

}  // namespace
}  // namespace tutti::exec::cuda
