// Where a block has its items: in shared memory, with their tables, or, if they do not fit there, in the GPU's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {

/// Of a structure's first 64 words those at these offsets, as a mask.
template <size_t... kOffsets>
struct WordsAt {
  static_assert(((kOffsets / sizeof(uint64_t) < 64) && ...));
  static constexpr uint64_t kMask = ((uint64_t{1} << kOffsets / sizeof(uint64_t)) | ...);
};

/// A block's items are its places 0, 1, …
class Places {
 public:
  TUTTI_DEVICE explicit Places(const gpu::LanesCall& call) : call_(call) {}

  TUTTI_DEVICE uint32_t number(uint32_t place) const { return ptx::block_index() + place * ptx::grid_size(); }
  TUTTI_DEVICE bool has(uint32_t place) const { return number(place) < call_.items; }
  TUTTI_DEVICE gpu::Item& item(uint32_t place) const { return *reinterpret_cast<gpu::Item*>(at(place)); }

  /// All threads; a barrier must follow. Copies the items and their links: each thread has words of both, so that as
  /// many loads as possible are on their way at the same time. The leader has other things to do, and writes what the
  /// call sets (kSetWords): its warp takes no part where there are others.
  TUTTI_DEVICE void load() const {
    const uint32_t first = ptx::block_size() > ptx::kWarp ? ptx::kWarp : 0;
    if (ptx::thread_index() < first) return;
    const uint32_t links = call_.image.links * ptx::kWarp;
    const uint32_t words = call_.in_shared ? gpu::kUsesAt / sizeof(uint64_t) + call_.image.links : 0;
    const uint32_t packs = call_.in_shared ? call_.image.table_bytes / sizeof(ptx::Pack) : 0;
    TUTTI_HD_ROLLED
    for (uint32_t place = 0; has(place); ++place) {
      unsigned char* const to = at(place);
      const unsigned char* const from = image(place);
      const unsigned char* const tables_from = tables(place);
      TUTTI_HD_ROLLED
      for (uint32_t i = ptx::thread_index() - first; i < links + words + packs; i += ptx::block_size() - first) {
        if (i < links) {
          const LinkWord link = link_word(from, to, i);
          if (link.home != nullptr) *link.copy = *link.home;
        } else if (i < links + words) {
          copy_word(to, from, tables_from, i - links);
        } else {
          const uint32_t at = (i - links - words) * sizeof(ptx::Pack);
          const auto* const pack = reinterpret_cast<const ptx::Pack*>(tables_from + at);
          *reinterpret_cast<ptx::Pack*>(to + call_.image.bytes + at) = *pack;
        }
      }
    }
  }

  /// One thread, at the end: an item that lies in the GPU's memory is again as it was written there.
  TUTTI_DEVICE void reset(uint32_t place) const {
    if (call_.in_shared) return;
    LaneState& lane = item(place).lane;
    lane.progress = lane.round = lane.repeated = 0;
    lane.arrived = 0;
    lane.next = call_.straight ? lane.tables->ops : nullptr;
    lane.uncommitted = nullptr;
  }

  /// All threads, when the items' lanes are done: copies their links back. An item without instructions has not used
  /// its links: another one may have.
  TUTTI_DEVICE void store() const {
    TUTTI_HD_ROLLED
    for (uint32_t place = 0; has(place); ++place) {
      if (item(place).rank.last.lanes->end == 0) continue;
      TUTTI_HD_ROLLED
      for (uint32_t i = ptx::thread_index(); i < call_.image.links * ptx::kWarp; i += ptx::block_size()) {
        const LinkWord link = link_word(at(place), at(place), i);
        if (link.home != nullptr) *link.home = *link.copy;
      }
    }
  }

 private:
  TUTTI_DEVICE unsigned char* image(uint32_t place) const {
    return call_.image.at + uint64_t{number(place)} * call_.image.bytes;
  }
  TUTTI_DEVICE unsigned char* at(uint32_t place) const {
    if (!call_.in_shared) return image(place);
    return ptx::dynamic_shared() + place * (call_.image.bytes + call_.image.table_bytes);
  }
  TUTTI_DEVICE const unsigned char* tables(uint32_t place) const {
    const uint32_t of = call_.image.own_tables ? number(place) : call_.lanes == 1 ? 0 : number(place) % call_.lanes;
    return call_.image.tables + uint64_t{of} * call_.image.table_bytes;
  }
  TUTTI_DEVICE static uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }
  /// A word of a link, where it lies between calls and in the item; null: there is none.
  struct LinkWord {
    uint64_t *home = nullptr, *copy = nullptr;
  };
  static constexpr uint32_t kOutWords = sizeof(link::OutLink) / sizeof(uint64_t);
  static constexpr uint32_t kInWords = sizeof(link::InLink) / sizeof(uint64_t);
  static_assert(kOutWords <= ptx::kWarp && kInWords <= ptx::kWarp);

  /// Number `i` of the words of an item's links, each of which has as many as a warp has threads. `uses`: the item in
  /// the image, or what the block has of it.
  TUTTI_DEVICE LinkWord link_word(const unsigned char* uses, unsigned char* item, uint32_t i) const {
    const uint32_t word = i % ptx::kWarp;
    const gpu::LinkUse use = reinterpret_cast<const gpu::LinkUse*>(uses + gpu::kUsesAt)[i / ptx::kWarp];
    if (use.number == kNone) return {};
    const uint32_t number = use.number & ~gpu::LinkUse::kIn;
    const bool in = use.number != number;
    if (word >= (in ? kInWords : kOutWords)) return {};
    auto* const home = in ? static_cast<void*>(call_.in_links + number) : static_cast<void*>(call_.out_links + number);
    return {static_cast<uint64_t*>(home) + word, reinterpret_cast<uint64_t*>(item + use.at) + word};
  }

  /// A word of the item. Of pointers to the item itself, or to its tables, to where the block has these.
  TUTTI_DEVICE void copy_word(unsigned char* to, const unsigned char* from, const unsigned char* tables_from,
                              uint32_t word) const {
    if (word < 64 && (kSetWords >> word & 1) != 0) return;
    uint64_t value = reinterpret_cast<const uint64_t*>(from)[word];
    if (word < kTablePointers || (word == kNext && value != 0)) {
      value += address(to + call_.image.bytes) - address(tables_from);
    } else if (word < 64 && (kOwnPointers >> word & 1) != 0 && value != 0) {
      value += address(to) - address(from);
    }
    reinterpret_cast<uint64_t*>(to)[word] = value;
  }

  static constexpr uint32_t kTablePointers = 2 * sizeof(Tables) / sizeof(uint64_t);     // they come first
  static constexpr uint32_t kNext = offsetof(gpu::Item, lane.next) / sizeof(uint64_t);  // another one, or null
  static constexpr uint64_t kOwnPointers =
      WordsAt<offsetof(gpu::Item, rank.out), offsetof(gpu::Item, rank.in), offsetof(gpu::Item, rank.regions),
              offsetof(gpu::Item, rank.shared[0]), offsetof(gpu::Item, rank.shared[1]),
              offsetof(gpu::Item, lane.arrivals), offsetof(gpu::Item, lane.tables)>::kMask;
  static constexpr uint64_t kSetWords =  // by the leader, for each call
      WordsAt<offsetof(gpu::Item, rank.bases[0]), offsetof(gpu::Item, rank.bases[1]), offsetof(gpu::Item, rank.tag),
              offsetof(gpu::Item, rank.arithmetic.scale), offsetof(gpu::Item, rank.faulted),
              offsetof(gpu::Item, lane.bases[0]), offsetof(gpu::Item, lane.bases[1])>::kMask;

  const gpu::LanesCall& call_;
};

}  // namespace tutti::exec::cuda
