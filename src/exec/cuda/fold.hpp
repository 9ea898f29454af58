// Folds and copies by a block of threads: each thread has some elements of all operands (exec/cuda/fold_values.hpp).
//
// Elements move in packs of 16 bytes where all operands and destinations lie alike within a pack; the ragged ends, and
// everything else, one by one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/device.hpp"
#include "exec/cuda/fold_values.hpp"
#include "exec/cuda/ll_operands.hpp"
#include "exec/cuda/ll_stores.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/state.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

constexpr uint32_t kPack = sizeof(ptx::Pack);

/// Bytes to the next whole pack.
TUTTI_DEVICE uint32_t to_whole_pack(const void* at) {
  return (0 - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at))) % kPack;
}

/// The bytes of a segment that a block moves: elements at both ends, whole packs between them. Of 32 bits, since each
/// register counts.
struct Extent {
  uint32_t head, body_end, bytes;
};
/// `alike`: all operands and destinations lie alike within a pack, the first whole one of which begins at `head`.
TUTTI_DEVICE Extent extent_of(uint64_t all, bool alike, uint32_t head) {
  const auto bytes = static_cast<uint32_t>(all);
  head = alike && head < bytes ? head : bytes;
  return {head, head + (bytes - head) / kPack * kPack, bytes};
}

/// Calls element(at) for all elements of `unit` bytes outside of the packs, each thread for its own.
template <class Elements>
TUTTI_DEVICE void each_element(const Extent& extent, uint32_t unit, Elements&& elements) {
  const uint32_t body = extent.body_end - extent.head;
  TUTTI_HD_ROLLED
  for (uint32_t at = ptx::thread_index() * unit; at < extent.bytes - body; at += ptx::block_size() * unit) {
    elements(at < extent.head ? at : at + body);
  }
}

/// Calls packs(at, apart) for kPlaces packs at a time: the first at byte `at`, each `apart` bytes further, as far as
/// they are below extent.body_end.
template <uint32_t kPlaces, class Packs>
TUTTI_DEVICE void each_pack(const Extent& extent, Packs&& packs) {
  const uint32_t apart = ptx::block_size() * kPack;
  TUTTI_HD_ROLLED
  for (uint32_t at = extent.head + ptx::thread_index() * kPack; at < extent.body_end; at += kPlaces * apart) {
    packs(at, apart);
  }
}

TUTTI_DEVICE void store_as(unsigned char* at, const ptx::Pack& pack) { ptx::store_pack(at, pack); }
template <class T>
TUTTI_DEVICE void store_as(unsigned char* at, const T& element) {
  *reinterpret_cast<T*>(at) = element;
}

template <class T>
TUTTI_DEVICE void store_both(unsigned char* to, unsigned char* slot, uint32_t at, const T& value) {
  if (to != nullptr) store_as(to + at, value);
  if (slot != nullptr) store_as(slot + at, value);
}

/// to[0, bytes) = slot[0, bytes) = from[0, bytes); `to` or `slot` may be null. By bytes of `unit`, to which all are
/// aligned.
template <class Unit>
TUTTI_DEVICE_APART void copy_block(unsigned char* to, unsigned char* slot, const unsigned char* from, uint64_t bytes) {
  constexpr uint32_t kPlaces = 4;
  const uint32_t head = to_whole_pack(from);
  const bool alike = (to == nullptr || to_whole_pack(to) == head) && (slot == nullptr || to_whole_pack(slot) == head);
  const Extent extent = extent_of(bytes, alike, head);
  each_element(extent, sizeof(Unit),
               [&](uint32_t at) { store_both(to, slot, at, *reinterpret_cast<const Unit*>(from + at)); });
  each_pack<kPlaces>(extent, [&](uint32_t at, uint32_t apart) {
    ptx::Pack loaded[kPlaces] = {};
    TUTTI_HD_UNROLLED
    for (uint32_t p = 0; p < kPlaces; ++p) {
      if (p == 0 || at + p * apart < extent.body_end) loaded[p] = ptx::begin_load(from + at + p * apart);
    }
    TUTTI_HD_UNROLLED
    for (uint32_t p = 0; p < kPlaces; ++p) {
      if (p == 0 || at + p * apart < extent.body_end) store_both(to, slot, at + p * apart, loaded[p]);
    }
  });
}

/// Loads packs of operands that all lie at byte `at` of theirs. Beyond the last operand some other is loaded again: a
/// load under a condition would be waited for at once.
struct PacksAt {
  const unsigned char* const* operands;
  uint32_t at;

  template <uint32_t kCount>
  TUTTI_DEVICE void operator()(uint32_t j, uint32_t end, ptx::Pack (&loaded)[kCount]) const {
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) loaded[i] = ptx::begin_load(operands[j + i < end ? j + i : j] + at);
  }
};

/// Of two operands, the most frequent: two packs of each at a time.
template <class Fold>
TUTTI_DEVICE void fold_two(const Fold& fold, const Extent& extent, unsigned char* to, unsigned char* slot,
                           const unsigned char* first, const unsigned char* second) {
  constexpr uint32_t kPlaces = Fold::kInFlight / 2;
  each_pack<kPlaces>(extent, [&](uint32_t at, uint32_t apart) {
    ptx::Pack loaded[kPlaces][2];
    TUTTI_HD_UNROLLED
    for (uint32_t p = 0; p < kPlaces; ++p) {
      const uint32_t place = at + p * apart < extent.body_end ? at + p * apart : at;
      loaded[p][0] = ptx::begin_load(first + place);
      loaded[p][1] = ptx::begin_load(second + place);
    }
    TUTTI_HD_UNROLLED
    for (uint32_t p = 0; p < kPlaces; ++p) {
      if (p == 0 || at + p * apart < extent.body_end) {
        store_both(to, slot, at + p * apart, fold.two(loaded[p][0], loaded[p][1]));
      }
    }
  });
}

template <class T>
TUTTI_DEVICE_APART void fold_block(const Arithmetic& how, const Instruction& op, const Segment& segment,
                                   unsigned char* to, unsigned char* slot, const unsigned char* const* operands) {
  using Stored = typename T::Stored;
  const Fold<T, ptx::Pack> fold(how, op, segment);
  const uint32_t head = to_whole_pack(operands[0]);
  bool alike = (to == nullptr || to_whole_pack(to) == head) && (slot == nullptr || to_whole_pack(slot) == head);
  TUTTI_HD_ROLLED
  for (uint32_t j = 1; j < op.sources; ++j) alike = alike && to_whole_pack(operands[j]) == head;
  const Extent extent = extent_of(segment.bytes, alike, head);
  each_element(extent, sizeof(Stored), [&](uint32_t at) {
    const auto load = [&](uint32_t j) { return *reinterpret_cast<const Stored*>(operands[j] + at); };
    store_both(to, slot, at, fold.element(load));
  });
  if (op.sources == 2) return fold_two(fold, extent, to, slot, operands[0], operands[1]);
  each_pack<1>(extent, [&](uint32_t at, uint32_t) { store_both(to, slot, at, fold.chunk(PacksAt{operands, at})); });
}

/// The same where messages come in lines. `kTwoApart`: folds of two operands have a loop of their own, a shorter one.
template <class T, bool kTwoApart, class Lines>
TUTTI_DEVICE void fold_lines(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                             unsigned char* slot, const BlockOperands& operands, const Lines& lines) {
  const Fold<T, typename Lines::Chunk> fold(how, op, segment);
  if (kTwoApart && op.sources == 2) {
    return lines.each_place([&](uint32_t place) {
      typename Lines::Chunk loaded[2];
      lines.load(place, operands, 0, 2, loaded);
      lines.store(place, to, slot, fold.two(loaded[0], loaded[1]));
    });
  }
  lines.each_place([&](uint32_t place) {
    lines.store(place, to, slot, fold.chunk([&](uint32_t j, uint32_t end, auto& loaded) {
      lines.load(place, operands, j, end, loaded);
    }));
  });
}
template <class Lines>
TUTTI_DEVICE void copy_lines(unsigned char* to, unsigned char* slot, const BlockOperands& operands,
                             const Lines& lines) {
  lines.each_place([&](uint32_t place) {
    typename Lines::Chunk loaded[1];
    lines.load(place, operands, 0, 1, loaded);
    lines.store(place, to, slot, loaded[0]);
  });
}

/// Both, as a function of its own, where a kernel has more besides.
template <class T, class Lines, class Group>
TUTTI_DEVICE_APART void ll_apart(const Group& group, const Arithmetic& how, const Instruction& op,
                                 const Segment& segment, unsigned char* to, unsigned char* slot,
                                 const BlockOperands& operands, bool copies) {
  const Lines lines(group, segment);
  if (copies) return copy_lines(to, slot, operands, lines);
  fold_lines<T, false>(how, op, segment, to, slot, operands, lines);
}

/// All threads of a block of whole warps: do all messages in lines come by LL128?
TUTTI_DEVICE bool all_ll128(const Instruction& op, const BlockOperands& operands) {
  bool other = false;
  TUTTI_HD_ROLLED
  for (uint32_t j = ptx::thread_index(); j < op.sources; j += ptx::block_size()) {
    const unsigned char* const operand = operands.at[j];
    other = other || (BlockOperands::in_lines(operand) && !BlockOperands::by_ll128(operand));
  }
  return !ptx::sync_block_or(other);
}

/// The interpreter's policy for elements of type T. Short calls move nothing by packs.
template <class T, gpu::KernelKind kKind>
struct BlockReduce {
  static constexpr bool kShort = kKind == gpu::KernelKind::Short;
  using Stored = typename T::Stored;

  template <class Group>
  TUTTI_DEVICE static void copy(const Group&, unsigned char* to, const unsigned char* from, uint64_t bytes) {
    if constexpr (!kShort) copy_block<Stored>(to, nullptr, from, bytes);
  }

  TUTTI_DEVICE static void set_operand(const unsigned char** operands, uint32_t k, const link::Arrival& arrival,
                                       uint64_t offset) {
    const bool in_lines = kKind != gpu::KernelKind::Slots && arrival.where == link::Where::Flagged;
    if (!in_lines) {
      operands[k] = arrival.data + offset;
    } else {
      reinterpret_cast<BlockOperands*>(operands)->set_lines(k, arrival);
    }
  }

  template <class Group>
  TUTTI_DEVICE static void send_lines(const Group&, const RankState& rank, const LaneState& lane, const Instruction& op,
                                      const unsigned char* from) {
    send_in_lines<Stored, !kShort>(rank, lane, op, from);
  }

  template <class Group>
  TUTTI_DEVICE static void run(const Group& group, const Arithmetic& how, const Instruction& op, const Segment& segment,
                               unsigned char* to, unsigned char* slot, const unsigned char* const* operands) {
    if (to == nullptr && slot == nullptr) return;
    const bool copies = op.sources == 1 && (how.scale == nullptr || segment.raw < 0);
    if constexpr (kShort) {
      const LlOperands<Stored, Group, false> lines(group, segment);
      const BlockOperands& all = BlockOperands::of(operands);
      return copies ? copy_lines(to, slot, all, lines) : fold_lines<T, true>(how, op, segment, to, slot, all, lines);
    }
    if constexpr (kKind == gpu::KernelKind::Ll) {
      using Lines = LlOperands<Stored, Group, true>;
      using OfLl128 = Ll128Operands<Stored, Group>;
      const BlockOperands& all = BlockOperands::of(operands);
      if (op.lines && ptx::block_size() % ptx::kWarp == 0 && all_ll128(op, all)) {
        return ll_apart<T, OfLl128>(group, how, op, segment, to, slot, all, copies);
      }
      if (op.lines) return ll_apart<T, Lines>(group, how, op, segment, to, slot, all, copies);
    }
    if constexpr (!kShort) {
      if (copies) return copy_block<Stored>(to == operands[0] ? nullptr : to, slot, operands[0], segment.bytes);
      fold_block<T>(how, op, segment, to, slot, operands);
    }
  }
};

}  // namespace tutti::exec::cuda
