// A GPU, as the parts of a backend that are of no vendor use it. A backend for GPUs implements it, one for each GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tutti::exec::gpu {

/// What network devices may do with a GPU's memory. Flushed: Gpu::flush_rdma() comes between what they have written
/// and a kernel that reads it.
enum class Rdma : uint8_t { None, Flushed, Ordered };

class Gpu {
 public:
  virtual ~Gpu() = default;
  /// "GPU 0 (NVIDIA H200)"
  virtual const std::string& name() const = 0;
  /// Unique in the process.
  virtual int number() const = 0;
  /// Why it can do no more work for this process, in its driver's words; "" if it can. Does not wait.
  virtual std::string failure() const = 0;
  /// Memory of the host that all GPUs can load and store, and memory of this GPU. Never given back. Throw
  /// Error(OutOfMemory).
  virtual unsigned char* allocate_on_host(uint64_t bytes) const = 0;
  virtual unsigned char* allocate_on_device(uint64_t bytes) const = 0;
  /// Where this GPU has what allocate_on_host() gave.
  virtual unsigned char* device_address(unsigned char* on_host) const = 0;
  virtual Rdma rdma() const = 0;
  virtual void flush_rdma() const = 0;
  /// Runs the task on this thread, with this GPU as the one that the thread uses.
  virtual void use(const std::function<void()>& task) const = 0;
};

}  // namespace tutti::exec::gpu
