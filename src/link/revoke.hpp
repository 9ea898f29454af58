// Revoking zero-copy messages. A call that fails gives all buffers back to its caller, including those that a reader
// has not read yet. The writer *revokes* the zero-copy messages that the reader has not consumed: it stores the number
// of the first such message, plus one, into its Claim.
//
// A reader in the same process must have left the memory before the call returns, because the caller may free it. So
// the reader *announces* each read: it stores the message's number, then loads the writer's revocation; the writer
// stores its revocation, then loads the announcement. All four accesses are sequentially consistent. So either the
// reader sees the revocation and does not touch the memory, or the writer sees the announcement and waits. An
// announcement lasts for one step, in which the reader never waits.
//
// A reader in another process may be stopped, so the writer cannot wait for it. Its read harms nobody, but the bytes
// may belong to a later use of the memory. So this reader checks for a revocation after it has read, before it uses the
// result.
#pragma once

#include <cstdint>

#include "link/host_ends.hpp"

namespace tutti::link {

/// `Memory` as in cooperative_copy.hpp, and load_last(p): a load that is ordered after all earlier loads.
template <class Memory>
struct RevokeWire {
  /// The writer's call has failed: the reader begins no further read of an unconsumed message in place.
  static void revoke(OutLink& out) { Memory::store_ordered(&out.host->memory->claim.revoked_from, out.acked + 1); }
  /// After revoke(): is a reader in this process still reading?
  static bool being_read(const OutLink& out) { return Memory::load_ordered(&out.host->memory->reading) != 0; }

  /// A reader in the writer's process announces that it reads message `in.next`. False: the message is revoked.
  static bool begin_read(InLink& in) {
    Memory::store_ordered(&in.host->memory->reading, in.next + 1);
    return valid(in, Memory::load_ordered(&in.host->memory->claim.revoked_from));
  }
  static void end_read(InLink& in) { Memory::store_release(&in.host->memory->reading, 0); }

  /// A reader in another process has read message `in.next`: was the message valid throughout?
  static bool still_valid(const InLink& in) {
    return valid(in, Memory::load_last(&in.host->memory->claim.revoked_from));
  }

 private:
  static bool valid(const InLink& in, uint64_t revoked_from) { return revoked_from == 0 || in.next + 1 < revoked_from; }
};

}  // namespace tutti::link
