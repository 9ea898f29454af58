// Messages in lines: the data travels with the flag that says whose it is (NCCL's protocol LL). So a message needs no
// descriptor, no pointer and no fence; it costs twice its bytes. For short messages between devices.
//
// A line is two words of 8 bytes, each of them 4 bytes of data and a flag of 4. A word is stored at once, so a reader
// that sees the flag has the data; words come in any order. Line 0 of a message is its header: tag and length. Line k
// holds 8 bytes of the payload, from byte 8·(k − 1) on.
//
// Such a link has kLlSlots slots in its reader's memory, used in turn, all zero when new. The flag is the number of
// times that the slot has been used, so what an earlier message left in a slot is never taken for the next one's. Flags
// repeat after kPeriod uses. A line that shorter messages have left alone since then would look new: so twice in each
// period the writer stores all lines of a slot. The reader says how many messages it has consumed, once for half of the
// slots; the writer looks at that when it has used all.
//
// No access here orders others, nor must it: the reader's loads of a message are done when its group has passed a
// barrier, and only then its leader stores the counter. The writer stores to a slot only after its leader has loaded
// that counter, and its group has passed a barrier.
//
// `Memory` loads and stores on this kind of processor, without any order (relaxed): load_line(p), store_line(p, line);
// load(p), store_relaxed(p, value) for a word of 8 bytes.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "link/link.hpp"
#include "link/wire.hpp"

namespace tutti::link {

struct alignas(16) Line {
  uint64_t words[2];  ///< flag << 32 | data
};

inline constexpr uint32_t kLineData = 8;             ///< bytes of payload in a line
inline constexpr uint64_t kLongestInLines = 0xffff;  ///< bytes of a message: its header has 16 bits for them

/// Lines of a message of so many bytes.
TUTTI_HD constexpr uint64_t lines_of(uint64_t bytes) { return 1 + (bytes + kLineData - 1) / kLineData; }
/// Bytes of a slot for messages of so many bytes at most.
TUTTI_HD constexpr uint64_t line_slot_bytes(uint64_t bytes) {
  return (lines_of(bytes) * sizeof(Line) + kStride - 1) / kStride * kStride;
}

/// The same for messages by LL128: 15 words of 8 bytes and a flag each, the first word for the header.
TUTTI_HD constexpr uint64_t ll128_slot_bytes(uint64_t bytes) { return (1 + (bytes + 7) / 8 + 14) / 15 * kStride; }

template <class Memory, uint32_t kSlots = kLlSlots, uint64_t kPeriod = uint64_t{1} << 31>
struct LlWire {
  static_assert((kPeriod & (kPeriod - 1)) == 0);

  /// Not 0, which is what new slots hold.
  TUTTI_HD static uint32_t flag_of(uint64_t message) {
    return 1 + static_cast<uint32_t>(message / kSlots & (kPeriod - 1));
  }

  // ---- the writer

  /// Is there a slot for another message? Loads the reader's counter only if the cached value does not suffice.
  TUTTI_HD static bool can_publish(OutLink& out) {
    if (out.next - out.acked < kSlots) return true;
    const uint64_t consumed = Memory::load(out.consumed);
    if (consumed - out.acked <= out.next - out.acked) out.acked = consumed;  // else it is impossible, and ignored
    return out.next - out.acked < kSlots;
  }

  /// Must the next message fill its slot?
  TUTTI_HD static bool cleans(const OutLink& out) { return ((out.next / kSlots + 1) & (kPeriod / 2 - 1)) == 0; }
  TUTTI_HD static uint64_t header_of(uint64_t tag, uint64_t length) { return tag << 16 | length; }

  /// Lines that must be stored for a message with so many: store() each of them once, in any order, by any thread.
  TUTTI_HD static uint64_t to_store(const OutLink& out, uint64_t lines) {
    return cleans(out) ? out.push_bytes / sizeof(Line) : lines;
  }
  TUTTI_HD static void store(const OutLink& out, uint64_t line, uint64_t data) {
    const uint64_t flag = uint64_t{flag_of(out.next)} << 32;
    auto* const slot = reinterpret_cast<Line*>(out.arena + out.next % kSlots * out.push_bytes);
    Memory::store_line(slot + line, {{flag | (data & 0xffffffff), flag | data >> 32}});
  }
  /// When all its lines are stored.
  TUTTI_HD static void published(OutLink& out) { ++out.next; }

  // ---- the reader

  /// Where message `in.next` comes.
  TUTTI_HD static Arrival arrival_of(const InLink& in, Form form) {
    Arrival arrival;
    arrival.data = in.arena + in.next % kSlots * (in.arena_bytes / kSlots);
    arrival.where = Where::Flagged;
    arrival.id = flag_of(in.next);
    arrival.offset = static_cast<uint64_t>(form);
    return arrival;
  }
  /// Has the header come? The rest may still be on its way.
  TUTTI_HD static Poll poll(const InLink& in, Header& header, Arrival& arrival) {
    return poll_as<LlWire>(in, Form::Ll, header, arrival);
  }
  /// The same of a link whose lines Wire::load() loads.
  template <class Wire>
  TUTTI_HD static Poll poll_as(const InLink& in, Form form, Header& header, Arrival& arrival) {
    arrival = arrival_of(in, form);
    uint64_t data = 0;
    if (!Wire::load(arrival, 0, data)) return Poll::Empty;
    header = {data >> 16, data & 0xffff, Where::Flagged};
    return Poll::Ready;
  }
  /// False if that line has not come yet.
  TUTTI_HD static bool load(const Arrival& arrival, uint64_t line, uint64_t& data) {
    const Line got = Memory::load_line(reinterpret_cast<const Line*>(arrival.data) + line);
    data = (got.words[0] & 0xffffffff) | got.words[1] << 32;
    return got.words[0] >> 32 == arrival.id && got.words[1] >> 32 == arrival.id;
  }
  /// When all lines of message `in.next` have been loaded.
  TUTTI_HD static void consume(InLink& in) {
    if (++in.next - in.published < kSlots / 2) return;
    in.published = in.next;
    Memory::store_relaxed(in.consumed, in.next);
  }
};

/// LL128: 120 bytes of data and a flag of 8, stored at once, if the path between two devices keeps a store of 128 bytes
/// whole. The data are 8-byte words: word 0 is the header, word k holds 8 bytes of the payload, from byte 8·(k − 1) on.
/// All else is as in LlWire. Also of `Memory`: load_acquire(p).
template <class Memory>
struct Ll128Wire : LlWire<Memory> {
  static constexpr uint64_t kWords = 15;  ///< of a line, before its flag
  static constexpr uint64_t kBytes = (kWords + 1) * sizeof(uint64_t);

  TUTTI_HD static constexpr uint64_t words_of(uint64_t bytes) { return 1 + (bytes + 7) / 8; }
  TUTTI_HD static constexpr uint64_t lines_of(uint64_t bytes) { return (words_of(bytes) + kWords - 1) / kWords; }

  /// Lines that must be stored for a message with so many.
  TUTTI_HD static uint64_t to_store(const OutLink& out, uint64_t lines) {
    return LlWire<Memory>::cleans(out) ? out.push_bytes / kBytes : lines;
  }
  TUTTI_HD static uint64_t* line_of(const OutLink& out, uint64_t line) {
    return reinterpret_cast<uint64_t*>(out.arena + out.next % kLlSlots * out.push_bytes + line * kBytes);
  }

  TUTTI_HD static Poll poll(const InLink& in, Header& header, Arrival& arrival) {
    return LlWire<Memory>::template poll_as<Ll128Wire>(in, Form::Ll128, header, arrival);
  }
  /// False if the line of that word has not come yet.
  TUTTI_HD static bool load(const Arrival& arrival, uint64_t word, uint64_t& data) {
    const auto* const line = reinterpret_cast<const uint64_t*>(arrival.data + word / kWords * kBytes);
    if (Memory::load_acquire(line + kWords) != arrival.id) return false;
    data = Memory::load(line + word % kWords);
    return true;
  }
};

}  // namespace tutti::link
