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

}  // namespace tutti::exec::gpu
