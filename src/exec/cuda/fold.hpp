// Folds and copies by a block of threads: each thread has some elements of all operands (exec/cuda/fold_values.hpp).
//
// Elements move in packs of 16 bytes where all operands and destinations lie alike within a pack; the ragged ends, and
// everything else, one by one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/device.hpp"
#include "exec/cuda/fold_values.hpp"
#include "exec/cuda/ll_access.hpp"
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
        store_both(to, slot, at + p * apart, fold.fold_loaded(loaded[p]));
      }
    }
  });
}

template <class T, Op kOp>
TUTTI_DEVICE_APART void fold_block(const Arithmetic& how, const Instruction& op, const Segment& segment,
                                   unsigned char* to, unsigned char* slot, const unsigned char* const* operands,
                                   FromMemory<typename T::Stored> source) {
  const Fold<T, kOp, FromMemory<typename T::Stored>> fold(how, op, segment, operands, source);
  const uint32_t head = to_whole_pack(operands[0]);
  bool alike = fold.by_packs() && (to == nullptr || to_whole_pack(to) == head) &&
               (slot == nullptr || to_whole_pack(slot) == head);
  TUTTI_HD_ROLLED
  for (uint32_t j = 1; j < op.sources; ++j) alike = alike && to_whole_pack(operands[j]) == head;
  const Extent extent = extent_of(segment.bytes, alike, head);
  each_element(extent, sizeof(typename T::Stored), [&](uint32_t at) { store_both(to, slot, at, fold.element(at)); });
  if (op.sources == 2) return fold_two(fold, extent, to, slot, operands[0], operands[1]);
  each_pack<1>(extent, [&](uint32_t at, uint32_t) { store_both(to, slot, at, fold.pack(at)); });
}

/// The same where messages come in lines: threads read them element by element, and so neighbours the same lines.
template <class T, Op kOp, class Source>
TUTTI_DEVICE void fold_block(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                             unsigned char* slot, const unsigned char* const* operands, const Source& source) {
  const Fold<T, kOp, Source> fold(how, op, segment, operands, source);
  constexpr uint32_t kUnit = sizeof(typename T::Stored);
  const auto bytes = static_cast<uint32_t>(segment.bytes);
  for (uint32_t at = ptx::thread_index() * kUnit; at < bytes; at += ptx::block_size() * kUnit) {
    store_both(to, slot, at, fold.element(at));
  }
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

  TUTTI_DEVICE static const unsigned char* operand(const link::Arrival& arrival, uint64_t offset) {
    const bool in_lines = kKind != gpu::KernelKind::Slots && arrival.where == link::Where::Flagged;
    return in_lines ? operand_in_lines(arrival) : arrival.data + offset;
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
    if constexpr (kKind != gpu::KernelKind::Slots) {
      if (kShort || op.lines) {
        const FromLines<Stored, Group, !kShort> source{group, static_cast<uint32_t>(segment.at)};
        if (copies) return copy_from_lines<Stored>(segment, to, slot, operands[0], source);
        return fold(how, op, segment, to, slot, operands, source);
      }
    }
    if constexpr (!kShort) {
      if (copies) return copy_block<Stored>(to == operands[0] ? nullptr : to, slot, operands[0], segment.bytes);
      fold(how, op, segment, to, slot, operands, FromMemory<Stored>());
    }
  }

 private:
  template <class Source>
  TUTTI_DEVICE static void fold(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                                unsigned char* slot, const unsigned char* const* operands, const Source& source) {
    static_assert(kOps == 9, "an operator needs a case here: nvcc does not warn of a missing one");
    switch (how.op) {
      case Op::Sum:
      case Op::Avg:
      case Op::PreMulSum:
        return fold_block<T, Op::Sum>(how, op, segment, to, slot, operands, source);
      case Op::Prod:
        return fold_block<T, Op::Prod>(how, op, segment, to, slot, operands, source);
      case Op::Min:
        return fold_block<T, Op::Min>(how, op, segment, to, slot, operands, source);
      case Op::Max:
        return fold_block<T, Op::Max>(how, op, segment, to, slot, operands, source);
      case Op::BitAnd:
        return fold_bits<Op::BitAnd>(how, op, segment, to, slot, operands, source);
      case Op::BitOr:
        return fold_bits<Op::BitOr>(how, op, segment, to, slot, operands, source);
      case Op::BitXor:
        return fold_bits<Op::BitXor>(how, op, segment, to, slot, operands, source);
    }
    ptx::trap();  // no operator
  }

  /// For words: operators on bits are launched with the kernel of the word that is as long as the type.
  template <Op kOp, class Source>
  TUTTI_DEVICE static void fold_bits(const Arithmetic& how, const Instruction& op, const Segment& segment,
                                     unsigned char* to, unsigned char* slot, const unsigned char* const* operands,
                                     const Source& source) {
    if constexpr (std::is_unsigned_v<typename T::Value>) {
      fold_block<T, kOp>(how, op, segment, to, slot, operands, source);
    } else {
      ptx::trap();
    }
  }
};

}  // namespace tutti::exec::cuda
