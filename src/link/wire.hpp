// The operations on a link's two ends, for whoever touches them: the interpreter, on hosts and on GPUs, and engines.
//
// None of them waits. The writer's order: fill the slot, then store its `sequence` with release. The reader's: load
// `sequence` with acquire, then *copy* the header and check the copy; the other end may be another process, and what
// it writes later can no longer matter.
//
// `Memory` says how one 8-byte word is loaded and stored on this kind of processor:
//   load(p) (relaxed), load_acquire(p), store_release(p, value), prefetch(p), prefetch_for_writing(p); see
//   host_memory.hpp.
#pragma once

#include "base/hd.hpp"
#include "link/cooperative_copy.hpp"
#include "link/link.hpp"
#include "reduce/copy_small.hpp"

namespace tutti::link {

/// A descriptor as copied out of its slot.
struct Header {
  uint64_t tag;     ///< fingerprint of the call, 48 bits
  uint64_t length;  ///< bytes of payload
  Where where;
};

enum class Poll : uint8_t {
  Empty,  ///< the message is not there yet
  Ready,
  Bad  ///< something is there that no writer of ours writes; the header holds what it says
};

template <class Memory>
struct SlotWire {
  /// Looks for message `in.next + ahead`. `arrival` is set when it is Ready and stays readable until it is consumed.
  TUTTI_HD static Poll poll(const InLink& in, Header& header, Arrival& arrival, uint64_t ahead = 0) {
    const uint64_t message = in.next + ahead;
    const Descriptor* from = slot(in.memory, message);
    const uint64_t sequence = Memory::load_acquire(&from->sequence);
    if (sequence != message + 1) {
      const uint64_t before = message < kCapacity ? 0 : message + 1 - kCapacity;  // what the slot held last
      if (sequence == before) return Poll::Empty;
      header = {};
      return Poll::Bad;
    }
    const uint64_t tag = Memory::load(&from->tag);
    header = {tag >> 16, Memory::load(&from->length), static_cast<Where>(tag & 0xffff)};
    return locate(in, *from, header, arrival) ? Poll::Ready : Poll::Bad;
  }

  /// Begins to bring the next message's line here.
  TUTTI_HD static void fetch(const InLink& in) { Memory::prefetch(slot(in.memory, in.next)); }

  /// Message `in.next` is done with. Its slot and payload go back to the writer: at once, except that for messages
  /// inside their descriptors every half ring does. A writer can therefore count on room for kCredits unread messages.
  TUTTI_HD static void consume(InLink& in, const Arrival& arrival) {
    ++in.next;
    if (arrival.inlined && in.next - in.published < kCapacity / 2) return;
    in.published = in.next;
    Memory::store_release(&in.memory->consumed, in.next);
  }

  /// Is there a slot for another message? Reads the reader's counter only when its copy says no.
  TUTTI_HD static bool can_publish(OutLink& out) {
    if (out.next - out.acked < kCapacity) return true;
    refresh(out);
    return out.next - out.acked < kCapacity;
  }

  /// Brings `out.acked` up to date. A counter that makes no sense is not taken over: the link then stays full.
  TUTTI_HD static void refresh(OutLink& out) {
    const uint64_t consumed = Memory::load_acquire(&out.memory->consumed);
    if (consumed == kClosed) {
      out.acked = out.next;
    } else if (consumed - out.acked <= out.next - out.acked) {
      out.acked = consumed;
    }
  }

  /// The reader stops for good: whatever the writer still waits for counts as consumed.
  TUTTI_HD static void close(InLink& in) { Memory::store_release(&in.memory->consumed, kClosed); }

  /// Does the reader claim what cannot be: to have consumed more than there is, or less than it said before?
  TUTTI_HD static bool broken(const OutLink& out) {
    const uint64_t consumed = Memory::load(&out.memory->consumed);
    return consumed != kClosed && consumed - out.acked > out.next - out.acked;
  }

  /// Needs can_publish(). `length` ≤ kInlineBytes.
  TUTTI_HD static void publish_inline(OutLink& out, uint64_t tag, const unsigned char* payload, uint64_t length) {
    Descriptor* to = slot(out.memory, out.next);
    copy_small(to->payload, payload, length);
    publish(out, to, tag, length, Where::Inline);
  }

  /// Needs can_publish(). The payload stays at `data`, which lies in the arena where the link has one, until the
  /// message is consumed.
  TUTTI_HD static void publish_staged(OutLink& out, uint64_t tag, const unsigned char* data, uint64_t length) {
    Descriptor* to = slot(out.memory, out.next);
    const bool offset = out.arena != nullptr;
    to->where = offset ? static_cast<uint64_t>(data - out.arena) : reinterpret_cast<uint64_t>(data);
    publish(out, to, tag, length, offset ? Where::Offset : Where::Address);
    out.staged = out.next;
  }

  /// Needs can_publish(), and a link that lends. The payload is read at `data`, anywhere in this rank's memory: the
  /// call may not end before the message is consumed.
  TUTTI_HD static void publish_lent(OutLink& out, uint64_t tag, const unsigned char* data, uint64_t length) {
    Descriptor* to = slot(out.memory, out.next);
    to->where = reinterpret_cast<uint64_t>(data);
    publish(out, to, tag, length, out.arena != nullptr ? Where::Pull : Where::Address);
    lent(out, data, length);
  }

  /// Needs can_publish(), and a link whose reader maps. The payload is read at `data`, in `region`: as above.
  TUTTI_HD static void publish_shared(OutLink& out, uint64_t tag, const SharedRegion& region, const unsigned char* data,
                                      uint64_t length) {
    Descriptor* to = slot(out.memory, out.next);
    to->place[0] = static_cast<uint64_t>(data - region.base);
    to->place[1] = region.id;
    publish(out, to, tag, length, Where::Shared);
    lent(out, data, length);
  }

 private:
  /// The last message has been lent: who helps its reader must not ask the shared memory where it lies.
  TUTTI_HD static void lent(OutLink& out, const unsigned char* data, uint64_t length) {
    out.lent = out.next;
    if (out.helping != nullptr) out.helping->lent[(out.next - 1) % kCapacity] = {out.next, data, length};
  }

  TUTTI_HD static void publish(OutLink& out, Descriptor* to, uint64_t tag, uint64_t length, Where where) {
    to->tag = tag << 16 | static_cast<uint64_t>(where);
    to->length = length;
    Memory::store_release(&to->sequence, ++out.next);
    Memory::prefetch_for_writing(slot(out.memory, out.next));  // the reader has had it since it read the last one there
  }

  /// Turns a copied header into a pointer, if it is one that this link may follow.
  TUTTI_HD static bool locate(const InLink& in, const Descriptor& from, const Header& header, Arrival& arrival) {
    switch (header.where) {
      case Where::Inline:
        arrival = {.data = from.payload, .inlined = true};
        return header.length <= kInlineBytes;
      case Where::Offset: {
        const uint64_t offset = Memory::load(&from.where);
        if (offset > in.arena_bytes || header.length > in.arena_bytes - offset) return false;
        arrival = {.data = in.arena + offset};
        return true;
      }
      case Where::Address:
        arrival = {.data = reinterpret_cast<const unsigned char*>(Memory::load(&from.where))};
        return in.addresses;
      case Where::Pull:
        arrival = {.data = reinterpret_cast<const unsigned char*>(Memory::load(&from.where)), .process = in.process};
        return in.process != 0;
      case Where::Shared:
        arrival = {.region = Memory::load(&from.place[1]), .offset = Memory::load(&from.place[0])};
        return in.mappings != nullptr && arrival.region != 0;
    }
    return false;
  }
};

}  // namespace tutti::link
