// Memory for what devices exchange with this host and its network, while kernels run. It never goes back to the driver,
// but to later users in the process: giving back waits for kernels, which may wait for other ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

/// So many bytes at least of the host's memory, for all devices. Throws Error(OutOfMemory).
std::shared_ptr<unsigned char> pinned(const tutti::cuda::Device& device, uint64_t bytes);
/// The same of the device's memory, in whole pages, so that network devices can be given it.
std::shared_ptr<unsigned char> on_device(const tutti::cuda::Device& device, uint64_t bytes);

}  // namespace tutti::exec::cuda
