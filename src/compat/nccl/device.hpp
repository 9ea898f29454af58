// What this process's CUDA driver says, where the program has loaded one. Nothing here is linked with it.
#pragma once

#include <cstddef>

namespace tutti::nccl {

/// Looks whether the program has loaded a driver by now.
void find_driver();
/// Does only a device read this memory?
bool is_device_memory(const void* memory);
/// Copies out of a device's memory, as it is now. Throws Refusal.
void copy_from_device(void* to, const void* from, size_t bytes);
/// The number of the current context's device; -1: none.
int current_device();

/// The calling thread's context, for another thread.
class Context {
 public:
  Context();
  /// Makes it the calling thread's.
  void use() const;

 private:
  void* context_ = nullptr;
};

}  // namespace tutti::nccl
