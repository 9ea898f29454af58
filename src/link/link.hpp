// A link: messages from one rank to another, in order, through memory that both ends can load and store.
//
// The writer owns a ring of 64-byte descriptors, the reader one counter of consumed messages. slot() gives the slot of
// message s; its `sequence` becomes s + 1 when all other fields are written. A message of up to 40 bytes travels inside
// its descriptor: one cache line, one transfer. A longer one is staged in the writer's arena, or is zero-copy: the
// reader reads it in the user's buffer. Each word has one writer, so there is no atomic read-modify-write.
//
// Where the parts lie is up to the transport. Between CPUs ring and payload lie with the writer, and the reader fetches
// them: LinkMemory. Where loads from afar are slow (GPUs, RDMA) they lie with the reader, and the writer *pushes*: the
// ring and the payload slots in the reader's memory, the counter in the writer's. Each end polls its own memory then.
//
// Both ends are plain data, the same for threads, processes and GPUs; what only hosts do is behind a pointer.
// Transports over a wire (tcp) keep such a ring at each end and move the messages between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hd.hpp"
#include "base/rank.hpp"

namespace tutti::link {

inline constexpr int kLinkFormat = 7;  ///< raise it with any change of the structures below, of slot() or of tags

/// Several threads of a rank may use links at the same time: one the link lanes 0 to kThreadLinkLanes − 1, another the
/// next ones, and so on.
inline constexpr uint32_t kThreadLinkLanes = 1 << 10;
/// Sends and receives have links of their own, of which other threads of the rank have the next ones too.
inline constexpr uint32_t kTransferLinkLane = 1 << 16;

/// Added to a link lane: the link whose messages travel by LL or LL128 (link/ll.hpp). They are links
/// of their own.
inline constexpr uint32_t kLlLanes = 1 << 20, kLl128Lanes = 2 * kLlLanes;
/// How the messages of a link travel: by a ring of descriptors, or without one.
enum class Form : uint32_t { Ring, Ll, Ll128 };

// In a longer ring the consumed counter crosses between the ranks more rarely; each crossing takes as long as a
// message.
inline constexpr uint32_t kCapacity = 32;                ///< messages that a link holds
inline constexpr uint32_t kCredits = kCapacity / 2 + 1;  ///< unread messages that always fit, see SlotWire::consume
inline constexpr uint32_t kSlots = 8;                    ///< staging slots of a stage: messages that may be unread
inline constexpr uint32_t kFewestSlots = 4;              ///< the same when staging memory is short
inline constexpr uint32_t kPushSlots = 8;                ///< payload slots of a link whose writer pushes
inline constexpr uint32_t kLlSlots = 8;                  ///< slots of a link in lines
inline constexpr uint32_t kCopySlots = 2;                ///< staging slots for copy engines: one is filled, one read
inline constexpr uint32_t kInlineBytes = 40;             ///< payload that fits into a descriptor
inline constexpr uint32_t kLine = 64;                    ///< bytes of a cache line
inline constexpr uint32_t kStride = 2 * kLine;           ///< processors prefetch lines in pairs
inline constexpr uint64_t kTagMask = (uint64_t{1} << 48) - 1;

inline constexpr uint64_t kClosed = ~uint64_t{0};  ///< value of `consumed` after which the reader reads no more

/// Where a message's payload is. Offset: in the writer's arena. Address: in this process. Cma: at an address of the
/// writer's process, read by CMA (link/cma.hpp). Mapped: in a region that the reader maps (link/mapped_memory.hpp).
/// Those up to Address can be read as they are. Flagged: in no descriptor, it came in lines (link/ll.hpp).
enum class Where : uint16_t { Flagged = 0, Inline = 1, Offset = 2, Address = 3, Cma = 4, Mapped = 5 };

inline constexpr uint64_t kNever = ~uint64_t{0};

struct HostWriter;  // link/host_ends.hpp
struct HostReader;

/// Memory of a process that peers can map, with a buffer in it.
struct SharedRegion {
  uint64_t id = 0;  ///< unique in the process, never used again; 0: none
  const unsigned char* base = nullptr;
  /// The pages that hold nothing but the buffer: only these can be replaced to stop a peer's stores.
  const unsigned char* pages = nullptr;
  const unsigned char* pages_end = nullptr;
};

inline constexpr SharedRegion kNoRegion{};

/// A peer's region as a GPU has it mapped: the entry of a table by the regions' ids. Some ids are the same everywhere.
struct MappedRegion {
  const unsigned char* base = nullptr;
  uint64_t bytes = 0;  ///< 0: it is not mapped
};
inline constexpr uint64_t kRegions = 256;
inline constexpr uint64_t kStagingRegion = 1;  ///< the memory with the writer's staging slots
inline constexpr uint64_t kAddressRegion = 2;  ///< all memory of the writer's GPU, if it is the reader's: at address 0
inline constexpr uint64_t kFirstUserRegion = 3;  ///< buffers that were registered

/// Bytes at both ends of a destination that the reader copies itself. The interior lies in pages of the buffer alone.
struct Edges {
  uint32_t front = 0, back = 0;
};

struct alignas(64) Descriptor {
  uint64_t sequence;  ///< number of the message plus one; written last, with release order
  uint64_t tag;       ///< fingerprint of the call (48 bits) << 16 | Where
  uint64_t length;    ///< bytes of payload
  union {
    uint64_t where;
    uint64_t mapped[2];  ///< Mapped: offset, region
    unsigned char payload[kInlineBytes];
  };
};
static_assert(sizeof(Descriptor) == kLine);

/// The reader's half of a cooperative copy or direct store: link/cooperative_copy.hpp.
struct Offer {
  uint64_t front;   ///< number of the message plus one, and the reader's tiles, from the front
  uint64_t route;   ///< a Route and flags: how the writer reaches the destination
  uint64_t target;  ///< the destination: an address, or an offset in the region
  uint64_t region;  ///< the region's id, or the address of the reader's CmaGate
  uint64_t tag;     ///< early offers: tag of the message
  uint64_t after;   ///< early offers: messages of the reader, in this round, that must have arrived before the store
  uint64_t edges;   ///< Edges: front << 32 | back
};
/// The writer's half.
struct Claim {
  uint64_t back;          ///< as `front`: the writer's tiles, from the back
  uint64_t done;          ///< as `front`: those of them that are copied
  uint64_t revoked_from;  ///< link/revoke.hpp: number, plus one, of the first revoked message; 0: none
};

/// All shared memory of a link between CPUs, with its writer. All zero when new.
struct LinkMemory {
  unsigned char ring[kCapacity * kLine];
  alignas(kStride) uint64_t consumed;  ///< messages that the reader has consumed; written by the reader
  Offer offer;                         ///< written by the reader
  alignas(kLine) Claim claim;          ///< written by the writer, rarely
  unsigned char padding[kLine - sizeof(Claim)];
  alignas(kStride) uint64_t reading;  ///< by the reader: number, plus one, of the message it reads in place; 0: none
  unsigned char more_padding[kStride - sizeof(uint64_t)];
};
static_assert(sizeof(LinkMemory) == kCapacity * kLine + 2 * kStride);

/// Messages for which a reader can post destinations at one time: the next ones.
inline constexpr uint32_t kPostedAhead = kPushSlots;
inline constexpr uint64_t kAnyTag = ~uint64_t{0};

/// Where the reader of a link with an engine wants the payload of a message that has not come. Written by the reader,
/// read by the engine when the message begins to come; see SlotWire::post. A link has kPostedAhead of them: message m
/// uses number m mod kPostedAhead.
struct Posted {
  uint64_t number = 0;  ///< of the message plus one; written last, with release order. 0: nothing is posted
  uint64_t tag = 0;     ///< kAnyTag: any message of up to `length` bytes is wanted there (InLink::keeps_posted)
  uint64_t length = 0;
  uint64_t to = 0;  ///< an address
};

/// The writing end.
struct OutLink {
  unsigned char* ring = nullptr;        ///< of descriptors: kCapacity · kLine bytes
  const uint64_t* consumed = nullptr;   ///< messages that the reader has consumed; written by the reader
  unsigned char* arena = nullptr;       ///< what offsets count from; null: payloads are published by address
  uint64_t push_bytes = 0;              ///< not 0: `arena` is kPushSlots slots of so many bytes, in the reader's memory
  uint64_t pushed = 0;                  ///< messages pushed
  uint64_t push_held[kPushSlots] = {};  ///< by slot: the count of consumed messages that frees it
  uint64_t next = 0;                    ///< number of the next message
  uint64_t committed = 0;               ///< where fences order (link/wire.hpp): messages that can be seen
  uint64_t acked = 0;                   ///< the reader's counter as last loaded
  uint64_t zcopied = 0;                 ///< all messages below this must be consumed before the call ends
  uint64_t staged = 0;  ///< all messages below this must be consumed before staging memory is reassigned
  Rank peer = kNoRank;
  uint32_t link_lane = 0;                  ///< a pair of ranks has one link in each direction on each link lane
  HostWriter* host = nullptr;              ///< null: messages are all there is
  Form form = Form::Ring;                  ///< not Ring: `arena` is kLlSlots slots of push_bytes bytes
  const unsigned char* staging = nullptr;  ///< of a GPU: where kStagingRegion begins
};

/// The reading end.
struct InLink {
  const unsigned char* ring = nullptr;
  uint64_t* consumed = nullptr;
  const unsigned char* arena = nullptr;  ///< where payloads of Where::Offset lie, as mapped here
  uint64_t arena_bytes = 0;
  uint64_t next = 0;       ///< number of the next message
  uint64_t published = 0;  ///< what `consumed` holds
  Rank peer = kNoRank;
  uint32_t link_lane = 0;
  bool addresses = false;      ///< the writer is in this process: payloads may be published by address
  uint64_t cma = 0;            ///< the writer's process, whose memory is read by CMA; 0: it is not
  bool mapped = false;         ///< the writer's regions can be mapped
  HostReader* host = nullptr;  ///< null: messages are all there is
  Posted* posted = nullptr;    ///< an engine's, kPostedAhead of them: it can receive a payload at its destination
  bool keeps_posted = false;   ///< destinations posted for any message stay the engine's until some message comes there
  Form form = Form::Ring;      ///< not Ring: `arena` is kLlSlots slots
  const MappedRegion* regions = nullptr;  ///< of a GPU, kRegions of them: the writer's
};

/// A message that has arrived, not yet consumed.
struct Arrival {
  const unsigned char* data = nullptr;  ///< Mapped: not set yet; Flagged: the slot
  Where where = Where::Offset;
  uint64_t id = 0;      ///< Mapped: the writer's region; Cma: its process; Flagged: the message's flag
  uint64_t offset = 0;  ///< Mapped: in the region; Flagged: the Form
};

// Consecutive messages are not in neighbouring lines. A reader that polls a slot would prefetch the neighbouring line,
// and so take it from the writer that is about to write it.
inline constexpr uint64_t kSlotStride = 5;  ///< slots from one message to the next
static_assert(kSlotStride % 2 == 1 && (kCapacity & (kCapacity - 1)) == 0, "all messages of a ring have their own slot");
static_assert(kSlotStride >= 2 && kSlotStride <= kCapacity - 2, "no two in a row share a pair of lines");

TUTTI_HD inline Descriptor* slot(const unsigned char* ring, uint64_t message) {
  const uint64_t index = message * kSlotStride % kCapacity;
  return reinterpret_cast<Descriptor*>(const_cast<unsigned char*>(ring) + index * kLine);
}

/// Where a pushing writer puts the next payload.
TUTTI_HD inline unsigned char* push_slot(const OutLink& out) {
  return out.arena + out.pushed % kPushSlots * out.push_bytes;
}

}  // namespace tutti::link
