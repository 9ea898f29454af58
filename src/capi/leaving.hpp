// The end of a communicator: of tuttiCommDestroy, and of a process that ends without it.
#pragma once

#include "base/status.hpp"
#include "comm/communicator.hpp"

namespace tutti::capi {

/// Waits for the calls that were made, and leaves. Throws nothing.
Status leave(comm::Communicator& communicator);

}  // namespace tutti::capi
