// A link: messages from one rank to another, in order, through memory that both ends can load and store.
//
// The writer owns a ring of 64-byte descriptors, and the reader one counter of what it has consumed. Message s stands
// where slot() says; the slot's `sequence` becomes s + 1 when all else is in place. A message of up to 40 bytes
// travels inside its descriptor: one cache line, one transfer. A longer one lies in the writer's arena, or is lent:
// read where the user has it. Nobody uses an atomic read-modify-write: each word has one writer.
//
// Both ends are plain data, the same for threads, processes and GPUs. Transports over a wire (tcp) keep such a ring at
// each end and move the messages between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hd.hpp"
#include "base/rank.hpp"

namespace tutti::link {

inline constexpr int kLinkFormat = 4;  ///< to be raised with any change of what is below, of slot() and of tags

// The longer the ring, the rarer the counter crosses between the two, which takes as long as a message.
inline constexpr uint32_t kCapacity = 32;                ///< messages that a link holds
inline constexpr uint32_t kCredits = kCapacity / 2 + 1;  ///< unread messages that always fit, see SlotWire::consume
inline constexpr uint32_t kSlots = 8;                    ///< staged messages that may be unread …
inline constexpr uint32_t kFewestSlots = 4;              ///< … and at least, where staging memory is short
inline constexpr uint32_t kInlineBytes = 40;             ///< payload that fits into a descriptor
inline constexpr uint32_t kLine = 64;                    ///< bytes that cross between two processors as one
inline constexpr uint32_t kStride = 2 * kLine;           ///< neighbouring lines are fetched in pairs
inline constexpr uint64_t kTagMask = (uint64_t{1} << 48) - 1;

inline constexpr uint64_t kClosed = ~uint64_t{0};  ///< a counter of consumed messages that will never be read again

/// Where a message's payload is. Offsets count from the writer's arena; addresses are the reader's own (same process),
/// or, to be by_cma (link/cma.hpp), the writer's; or it is in memory that the reader can map, at an offset of a
/// region (link/mapped_memory.hpp).
enum class Where : uint16_t { Inline = 1, Offset = 2, Address = 3, Pull = 4, Shared = 5 };

// Bytes from which on a message is lent:
inline constexpr uint64_t kZcopyFrom = 8192;  ///< below, a copy is cheaper than waiting for the reader
inline constexpr uint64_t kNever = ~uint64_t{0};

class PeerMappings;        // link/mapped_memory.hpp
struct CooperativeWriter;  // link/cooperative_copy.hpp
class CmaGate;             // link/cma.hpp

/// Memory of a process that others may map, with a buffer in it.
struct SharedRegion {
  uint64_t id = 0;  ///< no other region of the process ever has it; 0: none
  const unsigned char* base = nullptr;
  /// The pages in which nothing but the buffer lies: they alone can be taken from a peer that was let write there.
  const unsigned char* pages = nullptr;
  const unsigned char* pages_end = nullptr;
};

/// Bytes at both ends of a destination that its reader fills itself: the rest lies in pages of the buffer alone.
struct Trim {
  uint32_t front = 0, back = 0;
};

struct alignas(64) Descriptor {
  uint64_t sequence;  ///< 1 + number of the message; written last, with release order
  uint64_t tag;       ///< fingerprint of the call (48 bits) << 16 | Where
  uint64_t length;    ///< bytes of payload
  union {
    uint64_t where;
    uint64_t place[2];  ///< Shared: offset, region
    unsigned char payload[kInlineBytes];
  };
};
static_assert(sizeof(Descriptor) == kLine);

/// What the reader says of the lent message that it is copying, and what the writer does for it:
/// link/cooperative_copy.hpp.
struct Offer {
  uint64_t front;   ///< number of the message (and one) and tiles that are the reader's, from the front
  uint64_t way;     ///< how the writer gets to the destination
  uint64_t place;   ///< which is there
  uint64_t region;  ///< the region's id, or the gate to be passed on the way
  uint64_t tag;     ///< where the place is offered before the message comes: the message's
  uint64_t after;   ///< likewise: messages of the reader's, this round, that the writer must have had before it writes
  uint64_t trim;    ///< a Trim: front << 32 | back
};
struct Claim {
  uint64_t back;        ///< as `front`: the writer's tiles, from the back …
  uint64_t done;        ///< … and those that it has copied
  uint64_t taken_back;  ///< link/lend.hpp: the first message (and one) that is not lent any more; 0: none
};

/// What the reader of a link knows of the message that it copies, or has offered a place.
struct CooperativeReader {
  enum class Phase : uint32_t { None, Open, Closed };
  Phase phase = Phase::None;
  uint64_t number = 0;  ///< of the message, and one
  uint64_t tiles = 0;
  uint64_t taken = 0;           ///< tiles from the front
  uint64_t way = 0;             ///< how the writer gets to the destination,
  unsigned char* to = nullptr;  ///< which is here,
  uint64_t bytes = 0;           ///< so long,
  Trim trim;                    ///< of which it writes all but these
};

/// The shared memory of one link. All zero when new.
struct LinkMemory {
  unsigned char ring[kCapacity * kLine];
  alignas(kStride) uint64_t consumed;  ///< messages that the reader is done with; the reader's to write
  Offer offer;                         ///< the reader's too
  alignas(kLine) Claim claim;          ///< the writer's; seldom written
  unsigned char padding[kLine - sizeof(Claim)];
  alignas(kStride) uint64_t held;  ///< the reader's: the message (and one) that it reads where it lies; 0: none
  unsigned char more_padding[kStride - sizeof(uint64_t)];
};
static_assert(sizeof(LinkMemory) == kCapacity * kLine + 2 * kStride);

/// The writing end.
struct OutLink {
  LinkMemory* memory = nullptr;
  unsigned char* arena = nullptr;  ///< what offsets count from; null: payloads are published by address
  uint64_t next = 0;               ///< number of the next message
  uint64_t acked = 0;              ///< the reader's counter as last seen
  uint64_t lent = 0;               ///< all messages below this must be consumed before the call may end
  uint64_t staged = 0;             ///< … before the rank's staging memory may be divided anew
  Rank peer = kNoRank;
  uint32_t link_lane = 0;  ///< a pair of ranks has a link in each direction on each link_lane
  /// Messages of so many bytes and more are better lent: the reader reads any memory of this rank where it lies.
  uint64_t zcopy_threshold = kNever;
  bool by_cma = false;  ///< what is lent is copied by the kernel, which is not always faster than staging
  /// The same where they lie in memory that the reader can map (SharedRegion).
  uint64_t mapped_threshold = kNever;
  CooperativeWriter* helping = nullptr;  ///< null: the reader copies alone
};

/// The reading end.
struct InLink {
  LinkMemory* memory = nullptr;
  const unsigned char* arena = nullptr;  ///< the writer's arena as mapped here
  uint64_t arena_bytes = 0;
  uint64_t next = 0;       ///< number of the next message
  uint64_t published = 0;  ///< what `consumed` holds
  Rank peer = kNoRank;
  uint32_t link_lane = 0;
  bool addresses = false;            ///< the writer is this process: its addresses may be followed
  int process = 0;                   ///< the writer's process, whose memory may be by_cma; 0: it may not
  PeerMappings* mappings = nullptr;  ///< the writer's shared memory, where this process can map it
  CmaGate* gate = nullptr;           ///< what the writer has to pass where it writes to this process through the kernel
  bool cooperative = false;          ///< the writer may help to copy what it has lent
  uint64_t zcopy_threshold = kNever;  ///< bytes from which on what comes may be lent: below, it is not
  CooperativeReader sharing;
};

/// A message that has arrived, not yet consumed.
struct Arrival {
  const unsigned char* data = nullptr;
  bool inlined = false;
  int process = 0;      ///< not 0: `data` is an address in that process, to be by_cma
  uint64_t region = 0;  ///< not 0: the data are in this region of the writer's, from `offset` on, and yet to be found
  uint64_t offset = 0;
};

// Messages that follow each other are not neighbours: a reader that waits for one would fetch the next one's line with
// it, and so take it from the writer who is about to write there.
inline constexpr uint64_t kApart = 5;  ///< places from one message to the next
static_assert(kApart % 2 == 1 && (kCapacity & (kCapacity - 1)) == 0, "all messages of a ring have their own place");
static_assert(kApart >= 2 && kApart <= kCapacity - 2, "no two in a row share a pair of lines");

TUTTI_HD inline Descriptor* slot(const LinkMemory* memory, uint64_t message) {
  const uint64_t place = message * kApart % kCapacity;
  return reinterpret_cast<Descriptor*>(const_cast<unsigned char*>(memory->ring) + place * kLine);
}

}  // namespace tutti::link
