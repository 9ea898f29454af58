#include "comm/devices.hpp"

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

exec::MemoryKind memory_of(const Call& call, bool device_stream) {
  using Kind = exec::Pointer::Kind;
  exec::DeviceModule* const module = device_module();
  const auto kind_of = [&](const void* data) { return module->look_up(data).kind; };
  if (call.in == nullptr && call.out == nullptr) {
    return device_stream ? exec::MemoryKind::Device : exec::MemoryKind::Host;
  }
  const Kind in = kind_of(call.in != nullptr ? call.in : call.out);
  const Kind out = kind_of(call.out != nullptr ? call.out : call.in);
  if (in != out) {
    throw_error(Code::InvalidArgument, "{}: the input lies in memory of the {} and the output in memory of the {}",
                describe(call.spec), in == Kind::Device ? "device" : "host", out == Kind::Device ? "device" : "host");
  }
  return in == Kind::Device ? exec::MemoryKind::Device : exec::MemoryKind::Host;
}

}  // namespace tutti::comm
