// What a stalled call waits for.
#pragma once

#include <deque>

#include "exec/host/execution.hpp"
#include "exec/observer.hpp"

namespace tutti::exec {

/// Of a call that waits in these lanes, or for readers of its zero-copy messages. Only `links`, `engines`, `seconds` and
/// `id` are left to the caller.
Stall stall_of(const std::deque<Replica>& replicas);

/// Sets the links' counters of consumed messages. False, and a fault, if a reader's counter is impossible.
bool refresh_counters(Links& links, Fault& fault);

}  // namespace tutti::exec
