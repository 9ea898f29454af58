// What a stalled call waits for.
#pragma once

#include "exec/host/execution.hpp"
#include "exec/observer.hpp"

namespace tutti::exec {

/// Of a call that waits in its lanes, or for readers of its zero-copy messages. The caller sets `links`, `engines`,
/// `seconds` and `id`.
Stall stall_of(const HostExecution& execution);

/// The peer for which its first waiting lane waits; kNoRank if that is not known. Cheap: no call is checked for it.
Rank awaited_peer(const HostExecution& execution);

/// Sets the links' counters of consumed messages. False, and a fault, if a reader's counter is impossible.
bool refresh_counters(Links& links, Fault& fault);

}  // namespace tutti::exec
