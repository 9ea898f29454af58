// Memory of GPUs, as an RDMA device can reach it: a dmabuf, from the GPU's driver.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

struct ExportedMemory {
  bool is_device = false;  ///< false: it is the host's
  DmaBuf buffer;           ///< fd −1: the driver does not export it
  Fd owner;                ///< of buffer.fd; a registration does not need it any more
};
using ExportDevice = ExportedMemory (*)(const void* data, uint64_t bytes);

/// Asks NVIDIA's driver, in processes that have loaded it. Whole pages are exported.
ExportedMemory export_device_memory(const void* data, uint64_t bytes);

}  // namespace tutti::transports::verbs
