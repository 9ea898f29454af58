// What the two ways of registering a buffer share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl.h"

namespace tutti::nccl {

/// Lets peers read it in place. `registration` is 0 where they cannot: calls with it work as without; the log says why.
ncclResult_t add_buffer(ncclComm_t comm, const void* buffer, size_t size, uint64_t& registration);
/// Throws Refusal.
void check_range(const void* buffer, size_t size);

/// Deregisters the windows that count signals, unless the communicator has windows: all ranks call it, and all have as
/// many of these. The next one that is registered makes them again.
ncclResult_t end_signals(ncclComm& comm);

}  // namespace tutti::nccl
