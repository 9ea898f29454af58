#include "exec/cuda/allocations.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/format.hpp"
#include "transports/cuda/device.hpp"
#include "transports/cuda/driver.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::Device;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

class KnownAllocations {
 public:
  void add(const Allocation& allocation) {
    const std::lock_guard lock(mutex_);
    if (!contains(allocation.begin)) all_[next_++ % all_.size()] = allocation;
  }
  bool had(const void* address) {
    const std::lock_guard lock(mutex_);
    return contains(reinterpret_cast<uint64_t>(address));
  }
  static KnownAllocations& of_this_process() {
    static auto* const kAll = new KnownAllocations;
    return *kAll;
  }

 private:
  bool contains(uint64_t address) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Allocation& one) { return address - one.begin < one.bytes; });
  }
  std::mutex mutex_;
  std::array<Allocation, 64> all_;
  size_t next_ = 0;
};

}  // namespace

std::optional<Allocation> allocation_of(const void* address) {
  CUmemorytype type{};
  int device = -1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &device};
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  if (address == nullptr || driver().cuPointerGetAttributes(2, attributes, values, at) != CUDA_SUCCESS) return {};
  if (type != CU_MEMORYTYPE_DEVICE) return {};
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  const WithContext with(Device::get(device).context());
  check(driver().cuMemGetAddressRange(&begin, &bytes, at), "the extent of an allocation");
  return Allocation{device, begin, bytes};
}

bool owns(const void* address) {
  const std::optional<Allocation> in = allocation_of(address);
  if (in) KnownAllocations::of_this_process().add(*in);
  return in || KnownAllocations::of_this_process().had(address);
}

void* allocate(uint64_t bytes) {
  const int device = Device::current();
  if (device < 0) throw_error(Code::InvalidUsage, "this thread uses no GPU: make one current (cudaSetDevice) first");
  const WithContext with(Device::get(device).context());
  CUdeviceptr memory = 0;
  check(driver().cuMemAlloc(&memory, bytes), "memory of the GPU");
  return reinterpret_cast<void*>(memory);
}

void release(void* memory) {
  const std::optional<Allocation> known = allocation_of(memory);
  if (!known) throw_error(Code::InvalidArgument, "this is not device memory");
  const WithContext with(Device::get(known->device).context());
  check(driver().cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "memory of the GPU");
}

}  // namespace tutti::exec::cuda
