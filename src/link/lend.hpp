// Taking back what was lent. A call that fails gives its caller all buffers back, also those that a reader has still to
// read. What it lent on a link and the reader has not consumed it *takes back*: it writes the number of the first such
// message (and one) into its Claim.
//
// A reader in the same process reads with the caller's eyes: it must be out of the memory before the call returns, for
// the caller may free it. So it *holds* a message while it reads: it stores the message's number, then loads what was
// taken back; the writer stores what it takes back, then loads what is held. All four are in the one order of
// sequentially consistent operations, so either the reader sees that the message is its owner's again and does not
// touch it, or the writer sees that it is held, and waits. It holds for one step only, and does not wait meanwhile.
//
// A reader in another process cannot be waited for, as it may be stopped. It does no harm to who reads and writes there
// next, but what it reads may be anything: it looks when it has read, before it passes on what it made of it.
#pragma once

#include <cstdint>

#include "link/link.hpp"

namespace tutti::link {

/// `Memory` as in help.hpp, and load_last(p): a load after all loads before it.
template <class Memory>
struct LendWire {
  /// The writer's call has failed: no message that the reader has not consumed is begun to be read in place any more.
  static void take_back(OutLink& out) { Memory::store_ordered(&out.memory->claim.taken_back, out.acked + 1); }
  /// After that: is the reader, of this process, reading one nevertheless?
  static bool held(const OutLink& out) { return Memory::load_ordered(&out.memory->held) != 0; }

  /// The reader, of the writer's process, is about to read message `in.next`. False: it must not.
  static bool hold(InLink& in) {
    Memory::store_ordered(&in.memory->held, in.next + 1);
    return lent(in, Memory::load_ordered(&in.memory->claim.taken_back));
  }
  static void release(InLink& in) { Memory::store_release(&in.memory->held, 0); }

  /// The reader, of another process, has read message `in.next`: was it lent all the while?
  static bool was_lent(const InLink& in) { return lent(in, Memory::load_last(&in.memory->claim.taken_back)); }

 private:
  static bool lent(const InLink& in, uint64_t taken_back) { return taken_back == 0 || in.next + 1 < taken_back; }
};

}  // namespace tutti::link
