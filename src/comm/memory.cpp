#include "comm/memory.hpp"

#include <mutex>
#include <set>

#include "base/format.hpp"
#include "comm/devices.hpp"
#include "control/host.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::comm {

namespace {

/// Memory of devices that was allocated here.
struct DeviceBuffers {
  std::mutex mutex;
  std::set<void*> all;
  static DeviceBuffers& of_this_process() {
    static auto* const kBuffers = new DeviceBuffers;
    return *kBuffers;
  }
};

void* allocate_on_device(uint64_t bytes) {
  exec::DeviceModule* const module = device_module();
  if (module == nullptr) {
    throw_error(Code::Unsupported, "there is no memory of devices: the module cuda is not installed");
  }
  void* const buffer = module->allocate(bytes);
  DeviceBuffers& buffers = DeviceBuffers::of_this_process();
  const std::lock_guard lock(buffers.mutex);
  buffers.all.insert(buffer);
  return buffer;
}

bool is_device_buffer(void* buffer) {
  DeviceBuffers& buffers = DeviceBuffers::of_this_process();
  const std::lock_guard lock(buffers.mutex);
  return buffers.all.erase(buffer) > 0;
}

}  // namespace

void* allocate_buffer(uint64_t bytes, BufferKind kind) {
  if (kind == BufferKind::Device) return allocate_on_device(bytes);
  using Kind = link::SharedMemory::Kind;
  return control::on_this_host([&] {
    return link::SharedMemory::of_this_process().allocate(bytes, kind == BufferKind::Mapped ? Kind::Mapped : Kind::Any);
  });
}

void free_buffer(void* buffer) {
  if (is_device_buffer(buffer)) return device_module()->release(buffer);
  link::SharedMemory::of_this_process().release(buffer);
}

}  // namespace tutti::comm
