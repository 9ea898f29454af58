// One thread's turn on a replica.
#pragma once

#include "exec/host/execution.hpp"

namespace tutti::exec {

struct Turn {
  bool moved = false;              ///< anything
  bool done = false;               ///< all lanes are done, and all zero-copy messages are consumed
  const Replica* fault = nullptr;  ///< the replica that has failed: RankState::fault
};

/// Runs the instructions that can run now. `cooperates`: while nothing else moves, it copies part of the zero-copy
/// messages for their readers.
Turn step(Replica& replica, const HostExecution& execution, bool cooperates);

}  // namespace tutti::exec
