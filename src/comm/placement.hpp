// Memory of devices (GPUs) in calls: whether this process has any, and where a buffer lies.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_generation.hpp"
#include "comm/call.hpp"
#include "exec/device_module.hpp"

namespace tutti::comm {

inline constexpr int kNoDevice = -1;

/// The module that serves a device, if one is installed.
exec::DeviceModule* device_module();

/// The device that the calling thread uses, or kNoDevice.
int current_device();

namespace detail {
inline std::atomic<uint64_t> devices_used_by{0};  // process_generation()
}
/// True once a rank of this process uses a device: only then may a buffer lie elsewhere than in host memory. (In a
/// child of fork() the driver does not work, and its locks may be held for ever. A communicator that uses it is the
/// parent's.)
inline bool devices_in_use() { return detail::devices_used_by.load(std::memory_order_relaxed) == process_generation(); }

/// Is it in memory of a device? Only where devices_in_use().
bool is_on_device(const void* data);

/// Where the call runs: where its stream is, if it has one of a device (`device_stream`), else where its buffers lie.
/// Throws Error(InvalidArgument) if one lies in host memory and the other does not.
exec::MemoryKind memory_of(const Call& call, bool device_stream);

}  // namespace tutti::comm
