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

constexpr uint64_t kGranule = 2 << 20;  // of mapped memory, at least

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

/// Was the address mapped, and not allocated (cuMemAlloc)? Then others may follow that belong to the same buffer.
bool is_mapped(uint64_t address) {
  uint32_t allocated = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  void* value = &allocated;
  return driver().cuPointerGetAttributes(1, &attribute, &value, address) == CUDA_SUCCESS && (allocated & 1) == 0;
}

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
  const CUresult result = driver().cuMemGetAddressRange(&begin, &bytes, at);
  // Of ranges that were mapped some drivers know no extent: then it is the granule, of which all or nothing is mapped.
  if (result == CUDA_ERROR_NOT_FOUND) return Allocation{device, at / kGranule * kGranule, kGranule};
  check(result, "the extent of an allocation");
  return Allocation{device, begin, bytes};
}

std::string why_short(const Allocation& first, uint64_t begin, uint64_t bytes) {
  uint64_t end = first.begin + first.bytes;
  const bool mapped = end - begin >= bytes || is_mapped(begin);
  while (end - begin < bytes) {
    const auto next = mapped ? allocation_of(reinterpret_cast<const void*>(end)) : std::nullopt;
    if (!next) return fmt::format("has {} bytes, and its allocation ends after {}", bytes, end - begin);
    if (next->device != first.device) {
      return fmt::format("has {} bytes, and after {} lies on device {}", bytes, end - begin, next->device);
    }
    end = next->begin + next->bytes;
  }
  return "";
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
