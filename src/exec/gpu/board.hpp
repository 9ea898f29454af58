// What a rank's kernels have told the host, in words: how far its calls are, and for what each block waits. The log has
// it once a second while no call ends (TUTTI_LOG=debug), so that a hang can be read from outside of the process.
#pragma once

#include <cstdint>
#include <string>

#include "exec/gpu/lanes.hpp"
#include "exec/observer.hpp"

namespace tutti::exec::gpu {

/// False: the block has told no wait for a peer in the call of this number.
bool read_wait(const BlockWait& wait, uint64_t call, Stall& stall);

/// "3 calls enqueued, 3 begun, 2 ended; block 0 waits in call 3 for" and a wait_text()
std::string board_text(const HostRecord& record, uint64_t enqueued);

/// "rank 1 (message) at replica 0, lane 0, step 2, round 0 of 1"
std::string wait_text(const Stall& stall);

}  // namespace tutti::exec::gpu
