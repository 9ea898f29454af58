// Cooperative copy: while a reader copies a zero-copy message to its destination, the writer, which must wait for that
// anyway, copies part of the message itself. The reader takes tiles from the front, the writer from the back, until
// they meet.
//
// The reader publishes an Offer: the message's number, the destination, and how many tiles the reader has claimed. The
// writer answers with a Claim: how many tiles it has claimed. Each word has one writer. Each end claims tiles in the
// same way: it stores its new count, then loads the other end's count. All four accesses are sequentially consistent,
// so of two claims to the same tile at least one sees the other. An end that sees an overlap does not touch the tiles
// of this claim: the writer withdraws its claim, the reader *closes* the message.
//
// Closing sets the reader's count to all tiles. No later claim of the writer can succeed, because it sees that count;
// an earlier claim is visible to the reader. So all tiles before the count that the reader then loads are its own. When
// that count equals the count of tiles that the writer has copied, the writer will not touch the destination again. The
// reader writes its next offer after closing: a writer that combines the new destination with the old number finds the
// old message closed.
//
// *Direct store*: a reader may also offer a destination before its message comes (an *early* offer). A writer that
// computes the message, by a reduction, then stores the result right there: it claims all tiles, reduces, finishes, and
// publishes the message as zero-copy. When the message has come, the reader closes its offer and finds that nothing is
// left to copy; or everything, if the writer did not use the offer. The offer holds the message's tag, so that a writer
// in another call than the reader's does not use it.
//
// A call that fails closes its offers too, but cannot wait for a writer in another process, which may be stopped in the
// middle of a store and complete it later. So a reader offers only memory that it can take away from the writer: pages
// that hold nothing but the buffer, which it replaces (SharedMemory::renew), or memory behind a CmaGate (link/cma.hpp).
// The bytes at both ends of the buffer that share a page with something else (Edges) are copied by the reader.
//
// A count carries the message's number, so the count of an older message reads as zero. No function here waits. Every
// value from the other end is checked: an invalid one counts as no offer, or no claim.
#pragma once

#include <cstdint>

#include "link/host_ends.hpp"
#include "link/link.hpp"
#include "topo/constants.hpp"

namespace tutti::link {

/// How the writer reaches the destination: at an address (same process), by CMA, or in a region of the reader that the
/// writer maps. Flags: kNontemporal, store past the cache; kEarly, the message is not there yet: for a direct store
/// only.
enum class Route : uint64_t { None = 0, Address = 1, CmaWrite = 2, Mapped = 3 };
inline constexpr uint64_t kNontemporal = 1 << 8, kEarly = 1 << 9;

inline constexpr uint32_t kCountBits =
    16;  ///< low bits of a word that hold the count; the rest is the message's number

/// Bytes of a tile of a message of `bytes` bytes. Tiles are short, because the end that is done first waits for the
/// other's last tile, and few enough for kCountBits.
inline uint64_t tile_of(uint64_t bytes) {
  constexpr uint64_t kMaxTiles = 1 << 12;
  uint64_t tile = machine_constants().cooperative_tile;
  while (bytes / tile >= kMaxTiles) tile *= 2;
  return tile;
}
inline uint64_t tiles_of(uint64_t bytes) { return (bytes + tile_of(bytes) - 1) / tile_of(bytes); }

/// How many tiles to claim of `tiles` when `left` are unclaimed: nearly half at first, because with CMA each claim
/// costs as much as copying many KiB; few towards the end.
inline uint64_t claim_size(uint64_t tiles, uint64_t left, bool first) {
  const uint64_t most = machine_constants().cooperative_claim;
  const uint64_t wanted =
      first ? tiles * MachineConstants::cooperative_first / 16 : left / MachineConstants::cooperative_later;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

inline constexpr uint64_t kEdgeGrain = 64;  ///< bytes: a multiple of every element size

struct Tiles {
  uint64_t first = 0;
  uint64_t count = 0;
};

/// Do the edges leave a non-empty interior of whole elements of any type?
inline bool is_valid(const Edges& edges, uint64_t bytes) {
  if (edges.front == 0 && edges.back == 0) return true;
  return uint64_t{edges.front} + edges.back < bytes && edges.front % kEdgeGrain == 0 &&
         (edges.back == 0 || (bytes - edges.back) % kEdgeGrain == 0);
}

/// Sets `edges` of the `bytes` bytes at `to` so that the interior lies in [pages, end). False: the interior is empty.
inline bool find_interior(const unsigned char* to, uint64_t bytes, const unsigned char* pages, const unsigned char* end,
                          Edges& edges) {
  const auto begin = reinterpret_cast<uintptr_t>(to), first = reinterpret_cast<uintptr_t>(pages);
  const auto last = reinterpret_cast<uintptr_t>(end);
  uint64_t from = 0, up_to = bytes;
  if (first > begin) from = (first - begin + kEdgeGrain - 1) / kEdgeGrain * kEdgeGrain;
  if (last < begin + bytes) up_to = last < begin ? 0 : (last - begin) / kEdgeGrain * kEdgeGrain;
  if (from >= up_to) return false;
  edges = {static_cast<uint32_t>(from), static_cast<uint32_t>(bytes - up_to)};
  return true;
}

/// What the reader does next: copy the tiles it has claimed, wait for the writer's last tiles, or nothing.
enum class TileStatus : uint32_t { Claimed, Wait, Done };

/// An offer, copied out of shared memory and checked, with the writer's message that it is for.
struct OfferCopy {
  ZcopyMessage message;
  uint64_t left = 0;  ///< unclaimed tiles
  uint64_t route = 0;
  uint64_t target = 0;
  uint64_t region = 0;
  Edges edges;
};

/// `Memory` as in wire.hpp, and load_ordered(p), store_ordered(p, value): sequentially consistent.
template <class Memory>
struct CooperativeWire {
  // ---- the reader

  /// A destination and the message that it is for.
  struct Destination {
    uint64_t route = 0, target = 0, region = 0;
    uint64_t ahead = 0;  ///< unconsumed messages before it
    uint64_t tag = 0;    ///< of the message, with kEarly
    uint64_t after = 0;  ///< as Offer::after, with kEarly
    Edges edges;
  };

  /// Offers the destination of message `in.next + ahead` to the writer.
  static void offer(InLink& in, uint64_t tiles, const Destination& to) {
    Offer& offer = in.host->memory->offer;
    CooperativeReader& reader = in.host->cooperative;
    reader = {.phase = CooperativeReader::Phase::Open,
              .number = in.next + to.ahead + 1,
              .tiles = tiles,
              .route = to.route,
              .edges = to.edges};
    Memory::store_release(&offer.route, to.route);
    Memory::store_release(&offer.target, to.target);
    Memory::store_release(&offer.region, to.region);
    Memory::store_release(&offer.tag, to.tag);
    Memory::store_release(&offer.after, to.after);
    Memory::store_release(&offer.edges, uint64_t{to.edges.front} << 32 | to.edges.back);
    Memory::store_release(&offer.front, word(reader.number, 0));
  }

  /// Claims the next tiles for the reader. Wait: the writer is still copying its last ones. Done: all tiles are copied.
  static TileStatus claim_front(InLink& in, Tiles& mine) {
    CooperativeReader& reader = in.host->cooperative;
    if (reader.phase == CooperativeReader::Phase::Open) {
      mine = {reader.taken, claim_size(reader.tiles, left(reader, claimed(in)), reader.taken == 0)};
      Memory::store_ordered(&in.host->memory->offer.front, word(reader.number, reader.taken + mine.count));
      if (mine.count > left(reader, claimed(in))) close(in);
    }
    if (reader.phase == CooperativeReader::Phase::Closed) {
      const uint64_t theirs = claimed(in);
      mine = {reader.taken, left(reader, theirs)};
      if (mine.count == 0) return theirs == copied(in) ? TileStatus::Done : TileStatus::Wait;
    }
    reader.taken += mine.count;
    return TileStatus::Claimed;
  }

  /// No later claim of the writer succeeds.
  static void close(InLink& in) {
    Memory::store_ordered(&in.host->memory->offer.front, word(in.host->cooperative.number, in.host->cooperative.tiles));
    in.host->cooperative.phase = CooperativeReader::Phase::Closed;
  }

  /// After close(): has the writer left the destination for good?
  static bool settled(const InLink& in) { return claimed(in) == copied(in); }

  // ---- the writer

  /// Is there an offer for a zero-copy message that has unclaimed tiles?
  static bool find_offer(const OutLink& out, OfferCopy& offered) {
    const HostWriter& writer = *out.host;
    const Offer& offer = out.host->memory->offer;
    const uint64_t front = Memory::load_acquire(&offer.front), number = front >> kCountBits;
    if (number <= out.acked || number > out.next || number == writer.unreachable) return false;
    if (number < writer.number)
      return false;  // a reader that goes back to old messages could keep the writer busy forever
    offered.message = writer.messages[(number - 1) % kCapacity];
    if (offered.message.number != number) return false;
    const uint64_t claimed = writer.number == number ? writer.claimed : 0;
    const uint64_t tiles = tiles_of(offered.message.bytes), taken = count(front, number);
    if (taken + claimed >= tiles) return false;
    offered.left = tiles - taken - claimed;
    return locate(offer, offered) && (offered.route & kEarly) == 0;
  }

  /// Claims tiles for the writer, the last of the unclaimed ones. False: the reader has just claimed them.
  static bool claim_back(OutLink& out, const OfferCopy& offered, Tiles& mine) {
    HostWriter& writer = *out.host;
    const uint64_t number = offered.message.number, tiles = tiles_of(offered.message.bytes);
    if (writer.number != number) writer.number = number, writer.claimed = writer.done = 0;
    const uint64_t wanted = claim_size(tiles, offered.left, writer.claimed == 0);
    writer.claimed += wanted < offered.left ? wanted : offered.left;
    mine = {tiles - writer.claimed, writer.claimed - writer.done};
    Memory::store_ordered(&out.host->memory->claim.back, word(number, writer.claimed));
    const uint64_t front = Memory::load_ordered(&out.host->memory->offer.front);
    if (front >> kCountBits == number && count(front, number) + writer.claimed <= tiles) return true;
    withdraw(out);
    return false;
  }

  /// Is there an early offer for the message that is published next, with this tag and length? `received`: messages of
  /// the reader that have arrived in this round.
  static bool find_early_offer(const OutLink& out, uint64_t tag, uint64_t bytes, uint64_t received,
                               OfferCopy& offered) {
    const Offer& offer = out.host->memory->offer;
    if (Memory::load_acquire(&offer.front) != word(out.next + 1, 0)) return false;
    if (Memory::load_acquire(&offer.tag) != tag || Memory::load_acquire(&offer.after) > received) return false;
    offered.message = {out.next + 1, nullptr, bytes};
    offered.left = tiles_of(bytes);
    return locate(offer, offered) && (offered.route & kEarly) != 0;
  }

  /// Claims all tiles of that message. False: the reader has just closed the offer.
  static bool claim_all(OutLink& out, uint64_t bytes) {
    HostWriter& writer = *out.host;
    writer.number = out.next + 1;
    writer.done = 0;
    writer.claimed = tiles_of(bytes);
    Memory::store_ordered(&out.host->memory->claim.back, word(writer.number, writer.claimed));
    if (Memory::load_ordered(&out.host->memory->offer.front) == word(writer.number, 0)) return true;
    withdraw(out);
    return false;
  }

  /// The claimed tiles are copied.
  static void finish(OutLink& out) {
    HostWriter& writer = *out.host;
    writer.done = writer.claimed;
    Memory::store_release(&out.host->memory->claim.done, word(writer.number, writer.done));
  }

  /// Gives up the tiles that are claimed and not copied; they are not touched any more.
  static void withdraw(OutLink& out) {
    HostWriter& writer = *out.host;
    writer.claimed = writer.done;
    Memory::store_release(&out.host->memory->claim.back, word(writer.number, writer.claimed));
  }

 private:
  static uint64_t word(uint64_t number, uint64_t count) { return number << kCountBits | count; }
  static uint64_t count(uint64_t word, uint64_t number) {
    return word >> kCountBits == number ? word & ((uint64_t{1} << kCountBits) - 1) : 0;
  }
  /// False if the offer is not one that a reader of this library makes.
  static bool locate(const Offer& offer, OfferCopy& offered) {
    offered.route = Memory::load_acquire(&offer.route);
    offered.target = Memory::load_acquire(&offer.target);
    offered.region = Memory::load_acquire(&offer.region);
    const uint64_t edges = Memory::load_acquire(&offer.edges);
    offered.edges = {static_cast<uint32_t>(edges >> 32), static_cast<uint32_t>(edges)};
    return is_valid(offered.edges, offered.message.bytes);
  }
  static uint64_t claimed(const InLink& in) {
    return count(Memory::load_ordered(&in.host->memory->claim.back), in.host->cooperative.number);
  }
  static uint64_t copied(const InLink& in) {
    return count(Memory::load_acquire(&in.host->memory->claim.done), in.host->cooperative.number);
  }
  /// Unclaimed tiles, when the writer has claimed `claimed`.
  static uint64_t left(const CooperativeReader& reader, uint64_t claimed) {
    const uint64_t most = reader.tiles - reader.taken;
    return most - (claimed < most ? claimed : most);
  }
};

}  // namespace tutti::link
