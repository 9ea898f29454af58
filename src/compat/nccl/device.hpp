// What this process's CUDA driver says, where the program has loaded one. Nothing here is linked with it.
#pragma once

#include <cstddef>

namespace tutti::nccl {

/// Looks whether the program has loaded a driver by now.
void find_driver();
/// Has find_driver() found one?
bool has_driver();
/// Does only a device read this memory? Only where has_driver().
bool is_device_memory(const void* memory);
/// How many GPUs the driver has; 0 where there is no driver, or the program has not initialised it.
int device_count();
/// The number of the thread's device; -1: none. A thread that has chosen none has the first one, as CUDA's runtime has
/// it, if the program has initialised the driver: that becomes its own.
int current_device();

/// A context, which a thread can make its own.
class Context {
 public:
  /// The calling thread's.
  Context();
  /// The one of a GPU that CUDA's runtime uses. Only where has_driver(). Throws Refusal.
  explicit Context(int device);
  /// Makes it the calling thread's.
  void use() const;

 private:
  void* context_ = nullptr;
};

}  // namespace tutti::nccl
