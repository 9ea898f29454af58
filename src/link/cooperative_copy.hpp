// CooperativeWriter: while a reader copies a lent message to where it belongs, its writer, who must wait for that
// anyway, copies too. The reader takes tiles from the front, the writer from the back, until they meet.
//
// The reader offers the message (Offer): its number, the destination, and how many tiles are its own so far. The writer
// answers by how many are its (Claim). Each word has one writer, and each end claims tiles like this: it stores its
// count with them in it, then loads the other's count. All four are in the one order of sequentially consistent
// operations, so of two claims to one tile at least one sees the other, and who sees that the two counts overlap does
// not touch what it wanted: the writer takes its claim back, the reader *closes* the message.
//
// After closing -- the reader's count is all the tiles -- no claim can succeed: it sees the closed count, or it came
// before, and then the reader sees it. So what lies before the count that the reader then sees is its own, and when
// that count equals what the writer says it has copied, every claim that ever succeeded is done: the writer will not
// touch the destination again. What the reader writes into its offer for the next message comes after closing: who
// reads the new place with the old number finds the old message closed.
//
// A reader may also offer a place for a message that is yet to come. A writer that makes it anew -- folds it -- then
// stores it right there: it claims all the tiles, folds, finishes and publishes the message, as lent. The reader, when
// the message has come, closes what it offered and finds that nothing is left to be copied; or, where the writer did
// not take up the offer, everything. The message's tag is offered too: a writer in another call than the reader's must
// not write.
//
// A call that fails closes its offers too, but cannot wait for a writer in another process: that may be stopped in the
// middle of a store, and store the rest when it goes on. So what is offered is memory that can be taken from it: pages
// that hold nothing else than the buffer, which get others in their place (SharedMemory::renew), or memory behind a
// CmaGate (pull.hpp). The bytes at both ends that share their pages with something else are trimmed: the reader fills
// those.
//
// Counts carry the message's number, so a count of an older message is none. Nobody waits in here, and nothing that the
// other end writes is believed without a check: what makes no sense is no offer, or no claim.
#pragma once

#include <cstdint>

#include "link/link.hpp"

namespace tutti::link {

/// How the writer gets to the destination: it is memory of this process, or of the reader's, or in a region of the
/// reader's that the writer can map. kStreamed: past the cache. kAhead: for a message yet to come, which is folded
/// there or not at all.
enum class Route : uint64_t { None = 0, Address = 1, Push = 2, Shared = 3 };
inline constexpr uint64_t kStreamed = 1 << 8, kAhead = 1 << 9;

inline constexpr uint32_t kCountBits = 16;  ///< of a count; the rest is the message's number

/// Bytes of a tile of a message of so many: short, for who is done first waits for the other's last one; and few enough
/// to be counted.
inline uint64_t tile_of(uint64_t bytes) {
  constexpr uint64_t kLeast = 32 << 10, kMostTiles = 1 << 12;
  uint64_t tile = kLeast;
  while (bytes / tile >= kMostTiles) tile *= 2;
  return tile;
}
inline uint64_t tiles_of(uint64_t bytes) { return (bytes + tile_of(bytes) - 1) / tile_of(bytes); }

/// How many of `tiles` tiles to claim where `left` belong to nobody: nearly half at first, for each claim costs as much
/// as copying many KiB where it is copied by the kernel; and few in the end.
inline uint64_t share_of(uint64_t tiles, uint64_t left, bool first) {
  constexpr uint64_t kMost = 32;
  const uint64_t wanted = first ? tiles * 7 / 16 : left / 3;
  return wanted < 1 ? 1 : wanted < kMost ? wanted : kMost;
}

inline constexpr uint64_t kTrimGrain = 64;  ///< bytes: whole elements of every type

struct Tiles {
  uint64_t first = 0;
  uint64_t count = 0;
};

/// A message that was lent: its number (and one), and where it is.
struct Lent {
  uint64_t number = 0;
  const unsigned char* data = nullptr;
  uint64_t bytes = 0;
};

/// What the writer of a link knows.
struct CooperativeWriter {
  int process = 0;                   ///< the reader's, whose memory may be written; 0: it may not
  PeerMappings* mappings = nullptr;  ///< the reader's shared memory, where this process can map it
  Lent lent[kCapacity];              ///< by slot
  uint64_t number = 0;               ///< of the message (and one) that it claims tiles of,
  uint64_t claimed = 0;              ///< so many up to now,
  uint64_t done = 0;                 ///< of which so many are copied
  uint64_t given_up = 0;             ///< number of the message whose destination cannot be reached
  bool stopped = false;              ///< helping is not possible here
  bool unplaced = false;             ///< placing is not
};

/// What is trimmed leaves something, and whole elements of any type.
inline bool makes_sense(const Trim& trim, uint64_t bytes) {
  if (trim.front == 0 && trim.back == 0) return true;
  return uint64_t{trim.front} + trim.back < bytes && trim.front % kTrimGrain == 0 &&
         (trim.back == 0 || (bytes - trim.back) % kTrimGrain == 0);
}

/// What has to be trimmed of the `bytes` bytes at `to` for the rest to lie in [pages, end). False: there is no rest.
inline bool trim_to(const unsigned char* to, uint64_t bytes, const unsigned char* pages, const unsigned char* end,
                    Trim& trim) {
  const auto begin = reinterpret_cast<uintptr_t>(to), first = reinterpret_cast<uintptr_t>(pages);
  const auto last = reinterpret_cast<uintptr_t>(end);
  uint64_t from = 0, up_to = bytes;
  if (first > begin) from = (first - begin + kTrimGrain - 1) / kTrimGrain * kTrimGrain;
  if (last < begin + bytes) up_to = last < begin ? 0 : (last - begin) / kTrimGrain * kTrimGrain;
  if (from >= up_to) return false;
  trim = {static_cast<uint32_t>(from), static_cast<uint32_t>(bytes - up_to)};
  return true;
}

enum class Take : uint32_t { Tiles, Wait, Done };

/// An offer as copied out of shared memory, for a message that this end did lend.
struct Offered {
  Lent lent;
  uint64_t left = 0;  ///< tiles that nobody has
  uint64_t way = 0;
  uint64_t place = 0;
  uint64_t region = 0;
  Trim trim;
};

/// `Memory` as in wire.hpp, and load_ordered(p), store_ordered(p, value): sequentially consistent.
template <class Memory>
struct CooperativeWire {
  // ---- the reader

  /// What is offered: a destination, and for which message.
  struct Destination {
    uint64_t way = 0, place = 0, region = 0;
    uint64_t ahead = 0;  ///< messages before it that are not consumed yet
    uint64_t tag = 0;    ///< with kAhead: the message's
    uint64_t after = 0;  ///< with kAhead: as Offer::after
    Trim trim;
  };

  /// Message `in.next + ahead` is, or will be, copied to a place that the writer may help to fill.
  static void offer(InLink& in, uint64_t tiles, const Destination& to) {
    Offer& offer = in.memory->offer;
    CooperativeReader& sharing = in.sharing;
    sharing = {.phase = CooperativeReader::Phase::Open,
               .number = in.next + to.ahead + 1,
               .tiles = tiles,
               .way = to.way,
               .trim = to.trim};
    Memory::store_release(&offer.way, to.way);
    Memory::store_release(&offer.place, to.place);
    Memory::store_release(&offer.region, to.region);
    Memory::store_release(&offer.tag, to.tag);
    Memory::store_release(&offer.after, to.after);
    Memory::store_release(&offer.trim, uint64_t{to.trim.front} << 32 | to.trim.back);
    Memory::store_release(&offer.front, word(sharing.number, 0));
  }

  /// The next tiles to copy; or Wait, for the writer's last ones; or Done: all is copied.
  static Take take(InLink& in, Tiles& mine) {
    CooperativeReader& sharing = in.sharing;
    if (sharing.phase == CooperativeReader::Phase::Open) {
      mine = {sharing.taken, share_of(sharing.tiles, left(sharing, claimed(in)), sharing.taken == 0)};
      Memory::store_ordered(&in.memory->offer.front, word(sharing.number, sharing.taken + mine.count));
      if (mine.count > left(sharing, claimed(in))) close(in);
    }
    if (sharing.phase == CooperativeReader::Phase::Closed) {
      const uint64_t theirs = claimed(in);
      mine = {sharing.taken, left(sharing, theirs)};
      if (mine.count == 0) return theirs == copied(in) ? Take::Done : Take::Wait;
    }
    sharing.taken += mine.count;
    return Take::Tiles;
  }

  /// No further claim of the writer's succeeds.
  static void close(InLink& in) {
    Memory::store_ordered(&in.memory->offer.front, word(in.sharing.number, in.sharing.tiles));
    in.sharing.phase = CooperativeReader::Phase::Closed;
  }

  /// After close(): is the writer out of the destination for good?
  static bool settled(const InLink& in) { return claimed(in) == copied(in); }

  // ---- the writer

  /// Is there an offer for a message that was lent, with tiles that nobody has?
  static bool look(const OutLink& out, Offered& offered) {
    const CooperativeWriter& helping = *out.helping;
    const Offer& offer = out.memory->offer;
    const uint64_t front = Memory::load_acquire(&offer.front), number = front >> kCountBits;
    if (number <= out.acked || number > out.next || number == helping.given_up) return false;
    if (number < helping.number) return false;  // or a reader that goes back could keep this end at work for ever
    offered.lent = helping.lent[(number - 1) % kCapacity];
    if (offered.lent.number != number) return false;
    const uint64_t claimed = helping.number == number ? helping.claimed : 0;
    const uint64_t tiles = tiles_of(offered.lent.bytes), taken = count(front, number);
    if (taken + claimed >= tiles) return false;
    offered.left = tiles - taken - claimed;
    return locate(offer, offered) && (offered.way & kAhead) == 0;
  }

  /// Claims the last of the tiles that nobody has. False: the reader has taken them just now.
  static bool claim(OutLink& out, const Offered& offered, Tiles& mine) {
    CooperativeWriter& helping = *out.helping;
    const uint64_t number = offered.lent.number, tiles = tiles_of(offered.lent.bytes);
    if (helping.number != number) helping.number = number, helping.claimed = helping.done = 0;
    const uint64_t wanted = share_of(tiles, offered.left, helping.claimed == 0);
    helping.claimed += wanted < offered.left ? wanted : offered.left;
    mine = {tiles - helping.claimed, helping.claimed - helping.done};
    Memory::store_ordered(&out.memory->claim.back, word(number, helping.claimed));
    const uint64_t front = Memory::load_ordered(&out.memory->offer.front);
    if (front >> kCountBits == number && count(front, number) + helping.claimed <= tiles) return true;
    withdraw(out);
    return false;
  }

  /// Has the reader offered a place for the message that is published next, of this tag and length? `had` messages of
  /// the reader's are here.
  static bool look_ahead(const OutLink& out, uint64_t tag, uint64_t bytes, uint64_t had, Offered& offered) {
    const Offer& offer = out.memory->offer;
    if (Memory::load_acquire(&offer.front) != word(out.next + 1, 0)) return false;
    if (Memory::load_acquire(&offer.tag) != tag || Memory::load_acquire(&offer.after) > had) return false;
    offered.lent = {out.next + 1, nullptr, bytes};
    offered.left = tiles_of(bytes);
    return locate(offer, offered) && (offered.way & kAhead) != 0;
  }

  /// Claims all of that message. False: the reader has given it up just now.
  static bool claim_all(OutLink& out, uint64_t bytes) {
    CooperativeWriter& helping = *out.helping;
    helping.number = out.next + 1;
    helping.done = 0;
    helping.claimed = tiles_of(bytes);
    Memory::store_ordered(&out.memory->claim.back, word(helping.number, helping.claimed));
    if (Memory::load_ordered(&out.memory->offer.front) == word(helping.number, 0)) return true;
    withdraw(out);
    return false;
  }

  /// The claimed tiles are copied.
  static void finish(OutLink& out) {
    CooperativeWriter& helping = *out.helping;
    helping.done = helping.claimed;
    Memory::store_release(&out.memory->claim.done, word(helping.number, helping.done));
  }

  /// The claimed tiles are not touched (any more).
  static void withdraw(OutLink& out) {
    CooperativeWriter& helping = *out.helping;
    helping.claimed = helping.done;
    Memory::store_release(&out.memory->claim.back, word(helping.number, helping.claimed));
  }

 private:
  static uint64_t word(uint64_t number, uint64_t count) { return number << kCountBits | count; }
  static uint64_t count(uint64_t word, uint64_t number) {
    return word >> kCountBits == number ? word & ((uint64_t{1} << kCountBits) - 1) : 0;
  }
  /// False where no reader of ours makes such an offer.
  static bool locate(const Offer& offer, Offered& offered) {
    offered.way = Memory::load_acquire(&offer.way);
    offered.place = Memory::load_acquire(&offer.place);
    offered.region = Memory::load_acquire(&offer.region);
    const uint64_t trim = Memory::load_acquire(&offer.trim);
    offered.trim = {static_cast<uint32_t>(trim >> 32), static_cast<uint32_t>(trim)};
    return makes_sense(offered.trim, offered.lent.bytes);
  }
  static uint64_t claimed(const InLink& in) {
    return count(Memory::load_ordered(&in.memory->claim.back), in.sharing.number);
  }
  static uint64_t copied(const InLink& in) {
    return count(Memory::load_acquire(&in.memory->claim.done), in.sharing.number);
  }
  /// Tiles that nobody has, if so many are claimed.
  static uint64_t left(const CooperativeReader& sharing, uint64_t claimed) {
    const uint64_t most = sharing.tiles - sharing.taken;
    return most - (claimed < most ? claimed : most);
  }
};

}  // namespace tutti::link
