// What this process's CUDA driver says of memory, where the program has loaded one. Host memory alone is usable here.
#pragma once

#include <atomic>

namespace tutti::nccl {

using PointerQuery = int (*)(void* out, int attribute, unsigned long long pointer);
/// cuPointerGetAttribute; null where no driver is loaded.
extern std::atomic<PointerQuery> g_pointer_query;

/// Looks whether the program has loaded a driver by now.
void find_driver();
/// Throws Refusal if only a device can read this memory.
void refuse_device_memory(const void* buffer, const char* name);
inline void check_buffer(const void* buffer, const char* name) {
  if (g_pointer_query.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    refuse_device_memory(buffer, name);
}
/// The number of the current context's device; -1: none.
int current_device();

}  // namespace tutti::nccl
