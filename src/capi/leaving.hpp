// The end of a communicator: of tuttiCommDestroy, and of a process that ends without it.
#pragma once

#include "base/status.hpp"
#include "comm/communicator.hpp"

namespace tutti::capi {

/// Waits for the calls that were made, and leaves. Throws nothing.
Status leave(comm::Communicator& communicator);
/// For a communicator with a GPU: the process leaves before the GPU's driver, which is loaded by now, shuts down.
void prepare_exit_with_device();

}  // namespace tutti::capi
