// Communicators that are suspended: without memory, links and programs, until they are resumed.
#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace tutti::comm {

/// Communicator::suspend() and resume() when the ticket is served. Throws Error(InvalidUsage) within a group.
void suspend(const std::shared_ptr<Communicator>& comm);
void resume(const std::shared_ptr<Communicator>& comm);

}  // namespace tutti::comm
