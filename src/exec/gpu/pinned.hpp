// Memory for what GPUs exchange with this host and its network, while kernels run. It never goes back to the driver,
// but to later users in the process: giving back waits for kernels, which may wait for other ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "exec/gpu/gpu.hpp"

namespace tutti::exec::gpu {

/// So many bytes at least of the host's memory, for all GPUs. Throws Error(OutOfMemory).
std::shared_ptr<unsigned char> pinned(const Gpu& gpu, uint64_t bytes);
/// The same of the GPU's memory, in whole pages, so that network devices can be given it.
std::shared_ptr<unsigned char> on_device(const Gpu& gpu, uint64_t bytes);

/// Memory that is reserved now and handed out later, without asking the driver, which may wait for kernels.
class Reserve {
 public:
  enum class Where : uint8_t { OnHost, OnDevice };
  /// Throws Error(OutOfMemory).
  Reserve(const Gpu& gpu, Where where, uint64_t bytes);
  /// As pinned() or on_device(), from the reserve as long as it lasts.
  std::shared_ptr<unsigned char> take(uint64_t bytes);

 private:
  const Gpu& gpu_;
  const Where where_;
  const uint64_t bytes_;
  const std::shared_ptr<unsigned char> all_;
  uint64_t used_ = 0;
};

}  // namespace tutti::exec::gpu
