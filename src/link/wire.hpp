// The operations on the two ends of a link, for the interpreter (on hosts and GPUs) and for transports with an engine.
//
// None of them waits. The writer fills the slot, then stores its `sequence` with release. The reader loads `sequence`
// with acquire, then *copies* the header and checks the copy: the other end may be another process, and what it writes
// after the copy has no effect.
//
// `Memory` loads and stores one 8-byte word on this kind of processor: load(p) (relaxed), load_acquire(p),
// store_release(p, value), claim(p) (true for the first of all callers), prefetch(p), prefetch_for_writing(p); see
// host_memory.hpp. Where a store with release costs as much as a fence (GPUs), Memory has fence() too, and one of these
// orders all that one instruction, or several, publish: a message's descriptor is filled, but for its sequence, and
// commit() stores that after the fence. Then store_ordered(p, value) is a store that something else orders: a fence, or
// a barrier.
#pragma once

#include "base/hd.hpp"
#include "link/host_ends.hpp"
#include "link/link.hpp"
#include "reduce/copy_small.hpp"

namespace tutti::link {

/// The header of a descriptor, copied out of its slot.
struct Header {
  uint64_t tag;     ///< fingerprint of the call, 48 bits
  uint64_t length;  ///< bytes of payload
  Where where;
};

enum class Poll : uint8_t {
  Empty,  ///< the message has not come yet
  Ready,
  Bad  ///< the slot holds what no writer of this library writes; the header holds a copy
};

template <class Memory>
concept Fences = requires {
  Memory::fence();
};

template <class Memory>
struct SlotWire {
  using Words = Memory;
  static constexpr bool kLines = false;  ///< no messages come in lines (link/ll.hpp)

  /// Polls message `in.next + ahead`. When it is Ready, `arrival` is set, and valid until the message is consumed.
  TUTTI_HD static Poll poll(const InLink& in, Header& header, Arrival& arrival, uint64_t ahead = 0) {
    const uint64_t message = in.next + ahead;
    const Descriptor* from = slot(in.ring, message);
    const uint64_t sequence = Memory::load_acquire(&from->sequence);
    if (sequence != message + 1) {
      const uint64_t before = message < kCapacity ? 0 : message + 1 - kCapacity;  // the slot's last message
      if (sequence == before) return Poll::Empty;
      header = {};
      return Poll::Bad;
    }
    const uint64_t tag = Memory::load(&from->tag);
    header = {tag >> 16, Memory::load(&from->length), static_cast<Where>(tag & 0xffff)};
    return locate(in, *from, header, arrival) ? Poll::Ready : Poll::Bad;
  }

  /// Prefetches the next message's line.
  TUTTI_HD static void fetch(const InLink& in) { Memory::prefetch(slot(in.ring, in.next)); }

  /// Consumes message `in.next`: its slot and payload go back to the writer. Inline messages are acknowledged once per
  /// half ring, others at once. So a writer always has room for kCredits unread messages.
  TUTTI_HD static void consume(InLink& in, const Arrival& arrival) {
    ++in.next;
    if (arrival.where == Where::Inline && in.next - in.published < kCapacity / 2) return;
    in.published = in.next;
    if constexpr (Fences<Memory>) {
      Memory::store_ordered(in.consumed, in.next);  // by the barrier that all who read the payload have passed
    } else {
      Memory::store_release(in.consumed, in.next);
    }
  }

  /// Is there a slot for another message? Loads the reader's counter only if the cached value does not suffice.
  TUTTI_HD static bool can_publish(OutLink& out) {
    if (out.next - out.acked < kCapacity) return true;
    refresh(out);
    return out.next - out.acked < kCapacity;
  }

  /// Updates `out.acked`. An impossible counter is ignored, so the link then stays full.
  TUTTI_HD static void refresh(OutLink& out) {
    const uint64_t consumed = Memory::load_acquire(out.consumed);
    if (consumed == kClosed) {
      out.acked = out.next;
    } else if (consumed - out.acked <= out.next - out.acked) {
      out.acked = consumed;
    }
  }

  /// Tells the link's engine where the payload of message `in.next` belongs. It may write there from now on; the
  /// message then arrives at that address. If it has a different tag or length, or has begun to come, it arrives
  /// elsewhere.
  TUTTI_HD static void post(const InLink& in, uint64_t tag, uint64_t length, unsigned char* to) {
    post(in, in.next, tag, length, to);
  }
  /// The same for any of the next kPostedAhead messages. `tag`: kAnyTag if tag and length are not known; the message
  /// then arrives there if it has up to `length` bytes, or elsewhere. Where InLink::keeps_posted, `message` is the
  /// number of the post, from 0, and any later message may arrive there.
  TUTTI_HD static void post(const InLink& in, uint64_t message, uint64_t tag, uint64_t length, unsigned char* to) {
    Posted& posted = in.posted[message % kPostedAhead];
    if (Memory::load(&posted.number) == message + 1) return;
    Memory::store_release(&posted.tag, tag);
    Memory::store_release(&posted.length, length);
    Memory::store_release(&posted.to, reinterpret_cast<uint64_t>(to));
    Memory::store_release(&posted.number, message + 1);
  }
  /// Where the reader wants the payload of this message; null if it has posted nothing for it. `all`: of the link.
  TUTTI_HD static unsigned char* posted(const Posted* all, uint64_t message, uint64_t tag, uint64_t length) {
    const Posted wanted = posted_for(all, message);
    const bool fits = wanted.tag == kAnyTag ? length <= wanted.length : wanted.tag == tag && wanted.length == length;
    return fits ? reinterpret_cast<unsigned char*>(wanted.to) : nullptr;
  }
  /// What the reader has posted for this message; `to` is 0 if it is nothing.
  TUTTI_HD static Posted posted_for(const Posted* all, uint64_t message) {
    const Posted& posted = all[message % kPostedAhead];
    if (Memory::load_acquire(&posted.number) != message + 1) return {};
    return {message + 1, Memory::load(&posted.tag), Memory::load(&posted.length), Memory::load(&posted.to)};
  }

  /// The reader stops for good: all messages count as consumed.
  TUTTI_HD static void close(InLink& in) { Memory::store_release(in.consumed, kClosed); }

  /// Is the reader's counter impossible: more than has been published, or less than before?
  TUTTI_HD static bool broken(const OutLink& out) {
    const uint64_t consumed = Memory::load(out.consumed);
    return consumed != kClosed && consumed - out.acked > out.next - out.acked;
  }

  /// Where Memory has fences: all messages that were published, which a fence has followed, can be seen.
  TUTTI_HD static void commit(OutLink& out) {
    TUTTI_HD_ROLLED
    while (out.committed != out.next) {
      uint64_t& sequence = slot(out.ring, out.committed)->sequence;
      Memory::store_ordered(&sequence, ++out.committed);
    }
  }

  /// Needs can_publish(). `length` ≤ kInlineBytes.
  TUTTI_HD static void publish_inline(OutLink& out, uint64_t tag, const unsigned char* payload, uint64_t length) {
    Descriptor* to = slot(out.ring, out.next);
    copy_small(to->payload, payload, length);
    publish(out, to, tag, length, Where::Inline);
  }

  /// Needs can_publish(). The payload stays at `data` until the message is consumed; on a link with an arena, `data`
  /// lies in it.
  TUTTI_HD static void publish_staged(OutLink& out, uint64_t tag, const unsigned char* data, uint64_t length) {
    Descriptor* to = slot(out.ring, out.next);
    const bool offset = out.arena != nullptr;
    to->where = offset ? static_cast<uint64_t>(data - out.arena) : reinterpret_cast<uint64_t>(data);
    publish(out, to, tag, length, offset ? Where::Offset : Where::Address);
    out.staged = out.next;
  }

  /// Is there a slot in the reader's memory for another payload? Loads the reader's counter only if needed.
  TUTTI_HD static bool can_push(OutLink& out) {
    const uint64_t held = out.push_held[out.pushed % kPushSlots];
    if (out.acked < held) refresh(out);
    return out.acked >= held;
  }

  /// Needs can_publish() and can_push(). The payload has been written to push_slot().
  TUTTI_HD static void publish_pushed(OutLink& out, uint64_t tag, uint64_t length) {
    Descriptor* to = slot(out.ring, out.next);
    to->where = static_cast<uint64_t>(push_slot(out) - out.arena);
    publish(out, to, tag, length, Where::Offset);
    out.push_held[out.pushed++ % kPushSlots] = out.next;
  }

  /// Needs can_publish() and a link with zero-copy. The payload is read at `data`, anywhere in this rank's memory: the
  /// call must not end before the message is consumed.
  TUTTI_HD static void publish_zcopy(OutLink& out, uint64_t tag, const unsigned char* data, uint64_t length) {
    Descriptor* to = slot(out.ring, out.next);
    to->where = reinterpret_cast<uint64_t>(data);
    publish(out, to, tag, length, out.arena != nullptr ? Where::Cma : Where::Address);
    record_zcopy(out, data, length);
  }

  /// Needs can_publish() and a reader that maps this rank's regions. As publish_zcopy, with `data` in `region`.
  TUTTI_HD static void publish_mapped(OutLink& out, uint64_t tag, const SharedRegion& region, const unsigned char* data,
                                      uint64_t length) {
    Descriptor* to = slot(out.ring, out.next);
    to->mapped[0] = static_cast<uint64_t>(data - region.base);
    to->mapped[1] = region.id;
    publish(out, to, tag, length, Where::Mapped);
    record_zcopy(out, data, length);
  }

 private:
  /// Keeps a private record of the last message, for cooperative copies: the shared descriptor is not to be trusted.
  TUTTI_HD static void record_zcopy(OutLink& out, const unsigned char* data, uint64_t length) {
    out.zcopied = out.next;
    if (out.host != nullptr) out.host->messages[(out.next - 1) % kCapacity] = {out.next, data, length};
  }

  TUTTI_HD static void publish(OutLink& out, Descriptor* to, uint64_t tag, uint64_t length, Where where) {
    to->tag = tag << 16 | static_cast<uint64_t>(where);
    to->length = length;
    ++out.next;
    if constexpr (Fences<Memory>) return;
    Memory::store_release(&to->sequence, out.next);
    Memory::prefetch_for_writing(
        slot(out.ring, out.next));  // the reader's core has held this line since it read the last message there
  }

  /// Sets `arrival` from a copied header. False if this link does not accept such a payload.
  TUTTI_HD static bool locate(const InLink& in, const Descriptor& from, const Header& header, Arrival& arrival) {
    switch (header.where) {
      case Where::Inline:
        arrival = {.data = from.payload, .where = Where::Inline};
        return header.length <= kInlineBytes;
      case Where::Offset: {
        const uint64_t offset = Memory::load(&from.where);
        if (offset > in.arena_bytes || header.length > in.arena_bytes - offset) return false;
        arrival = {.data = in.arena + offset, .where = Where::Offset};
        return true;
      }
      case Where::Address:
        arrival = {.data = reinterpret_cast<const unsigned char*>(Memory::load(&from.where)), .where = Where::Address};
        return in.addresses;
      case Where::Cma:
        arrival = {.data = reinterpret_cast<const unsigned char*>(Memory::load(&from.where)),
                   .where = Where::Cma,
                   .id = in.cma};
        return in.cma != 0;
      case Where::Mapped:
        arrival = {
            .where = Where::Mapped, .id = Memory::load(&from.mapped[1]), .offset = Memory::load(&from.mapped[0])};
        return in.mapped && arrival.id != 0;
      case Where::Flagged:
        return false;
    }
    return false;
  }
};

}  // namespace tutti::link
