#include "comm/devices.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/format.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

exec::DeviceModule* device_module() {
  for (const transports::TransportEntry& entry : transports::transports()) {
    if (entry.device != nullptr) return entry.device;
  }
  return nullptr;
}

int current_device() {
  exec::DeviceModule* const module = device_module();
  return module == nullptr ? kNoDevice : module->current();
}

namespace {

using Kind = exec::Pointer::Kind;

/// Allocations of devices that calls had buffers in. The driver does not know an address of memory that was freed;
/// without this it would count as the host's.
class KnownAllocations {
 public:
  void add(const exec::Pointer& allocation) {
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
                       [&](const exec::Pointer& one) { return address - one.begin < one.bytes; });
  }
  std::mutex mutex_;
  std::array<exec::Pointer, 64> all_;
  size_t next_ = 0;
};

Kind kind_of(const void* data) {
  const exec::Pointer at = device_module()->look_up(data);
  if (at.kind == Kind::Device) KnownAllocations::of_this_process().add(at);
  if (at.kind == Kind::Host && KnownAllocations::of_this_process().had(data)) return Kind::Device;
  return at.kind;
}

}  // namespace

bool is_on_device(const void* data) { return kind_of(data) == Kind::Device; }

exec::MemoryKind memory_of(const Call& call, bool device_stream) {
  if (device_stream) return exec::MemoryKind::Device;
  if (call.in == nullptr && call.out == nullptr) return exec::MemoryKind::Host;
  const Kind in = kind_of(call.in != nullptr ? call.in : call.out);
  const Kind out = kind_of(call.out != nullptr ? call.out : call.in);
  if (in != out) {
    throw_error(Code::InvalidArgument, "{}: the input lies in memory of the {} and the output in memory of the {}",
                describe(call.spec), in == Kind::Device ? "device" : "host", out == Kind::Device ? "device" : "host");
  }
  return in == Kind::Device ? exec::MemoryKind::Device : exec::MemoryKind::Host;
}

}  // namespace tutti::comm
