// Folds and copies by a block of threads, with the bits of src/reduce: the same operations on the same types in the
// same order.
//
// Elements move in packs of 16 bytes where all operands and destinations lie alike within a pack; the ragged ends, and
// everything else, one by one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/arithmetic.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/divide.hpp"
#include "exec/cuda/ll_access.hpp"
#include "exec/state.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// Operands in memory.
template <class Stored>
struct FromMemory {
  using Index = uint64_t;
  TUTTI_DEVICE Stored element(const unsigned char* operand, uint64_t at) const {
    return *reinterpret_cast<const Stored*>(operand + at);
  }
};

/// A fold of one segment: what is equal for all its elements. `Source`: how elements of operands are read.
template <class T, Op kOp, class Source>
class Fold {
 public:
  using Stored = typename T::Stored;
  using Value = typename T::Value;
  using Index = typename Source::Index;

  TUTTI_DEVICE Fold(const Arithmetic& how, const Instruction& op, const Segment& segment,
                    const unsigned char* const* operands, const Source& source)
      : operands_(operands),
        source_(source),
        sources_(op.sources),
        divide_by_(op.completes ? how.divide_by : 0),
        scaled_(how.scale != nullptr ? segment.raw : -1),
        rounds_(T::kRounds && how.round_each),
        tree_(op.shape == FoldShape::Tree && op.sources > 3) {
    if (scaled_ >= 0) scale_ = T::widen(*static_cast<const Stored*>(how.scale));
  }

  static constexpr uint32_t kElements = sizeof(ptx::Pack) / sizeof(Stored);

  /// A tree keeps several values of each element: it is folded one by one.
  TUTTI_DEVICE bool by_packs() const { return !tree_; }

  /// The elements of the pack at byte `at`. Needs by_packs().
  TUTTI_DEVICE ptx::Pack pack(uint64_t at) const {
    if constexpr (kBytes) {
      return bytes_pack(at);
    } else {
      return values_pack(at);
    }
  }

  /// The element at byte `at`.
  TUTTI_DEVICE Stored element(Index at) const { return finished(folded(at)); }

 private:
  /// Elements of a pack that are folded at a time: as many as registers hold. Loading it again finds it in the cache.
  static constexpr uint32_t kAtATime = sizeof(Stored) == 1 ? 2 : kElements;
  /// Bytes stay in their words: 16 values of their own would take 16 registers.
  static constexpr bool kBytes = sizeof(Value) == 1;

  TUTTI_DEVICE ptx::Pack values_pack(uint64_t at) const {
    Stored results[kElements];
    for (uint32_t first = 0; first < kElements; first += kAtATime) {
      Value values[kAtATime];
      load_values(0, at, first, values);
      TUTTI_HD_ROLLED
      for (uint32_t j = 1; j < sources_; ++j) {
        add_values(j, at, first, values);
      }
      for (uint32_t e = 0; e < kAtATime; ++e) {
        results[first + e] = finished(values[e]);
        if constexpr (sizeof(Stored) == 2) ptx::one_by_one();
      }
    }
    ptx::Pack folded;
    __builtin_memcpy(&folded, results, sizeof folded);
    return folded;
  }

  TUTTI_DEVICE ptx::Pack bytes_pack(uint64_t at) const {
    ptx::Pack folded = bytes_of(0, at);
    TUTTI_HD_ROLLED
    for (uint32_t j = 1; j < sources_; ++j) {
      const ptx::Pack next = bytes_of(j, at);
      for (uint32_t i = 0; i < 4; ++i) {
        folded.words[i] = by_bytes(folded.words[i], next.words[i], [&](Value x, Value y) { return node(x, y); });
      }
    }
    for (uint32_t& word : folded.words) word = by_bytes(word, 0, [&](Value x, Value) { return finished(x); });
    return folded;
  }
  TUTTI_DEVICE ptx::Pack bytes_of(uint32_t j, uint64_t at) const {
    ptx::Pack loaded = ptx::load_pack(operands_[j] + at);
    if (static_cast<int32_t>(j) != scaled_) return loaded;
    for (uint32_t& word : loaded.words) {
      word = by_bytes(word, 0, [&](Value x, Value) { return combine<Value, Op::Prod>(x, scale_); });
    }
    return loaded;
  }
  template <class Function>
  TUTTI_DEVICE static uint32_t by_bytes(uint32_t x, uint32_t y, Function&& function) {
    uint32_t word = 0;
    for (uint32_t bit = 0; bit < 32; bit += 8) {
      word |= uint32_t{static_cast<uint8_t>(function(static_cast<Value>(x >> bit), static_cast<Value>(y >> bit)))}
              << bit;
    }
    return word;
  }

  TUTTI_DEVICE void load_values(uint32_t j, uint64_t at, uint32_t first, Value* values) const {
    const unsigned char* const from = operands_[j] + at;
    const ptx::Pack loaded = ptx::load_pack(from);
    Stored elements[kElements];
    __builtin_memcpy(elements, &loaded, sizeof loaded);
    for (uint32_t e = 0; e < kAtATime; ++e) values[e] = operand(j, elements[first + e]);
  }

  TUTTI_DEVICE void add_values(uint32_t j, uint64_t at, uint32_t first, Value* values) const {
    const ptx::Pack loaded = ptx::load_pack(operands_[j] + at);
    constexpr uint32_t kPart = sizeof(Stored) >= 4 ? 1 : (kAtATime < 4 ? kAtATime : 4 / sizeof(Stored));
    for (uint32_t e = 0; e < kAtATime; e += kPart) {
      Stored part[kPart];
      __builtin_memcpy(part, reinterpret_cast<const unsigned char*>(&loaded) + (first + e) * sizeof(Stored),
                       sizeof part);
      for (uint32_t i = 0; i < kPart; ++i) values[e + i] = node(values[e + i], operand(j, part[i]));
      if constexpr (kAtATime == kElements) ptx::one_by_one();
    }
  }

  TUTTI_DEVICE Value settle(Value value) const { return rounds_ ? T::widen(T::narrow(value)) : value; }
  TUTTI_DEVICE Value node(Value a, Value b) const { return settle(combine<Value, kOp>(a, b)); }
  TUTTI_DEVICE Value operand(uint32_t j, Stored stored) const {
    const Value value = T::widen(stored);
    return static_cast<int32_t>(j) == scaled_ ? settle(combine<Value, Op::Prod>(value, scale_)) : value;
  }
  TUTTI_DEVICE Value source(uint32_t j, Index at) const { return operand(j, source_.element(operands_[j], at)); }

  TUTTI_DEVICE Stored finished(Value value) const {
    if (kOp != Op::Sum || divide_by_ <= 1) return T::narrow(value);
    return T::narrow(divided(value, divide_by_));
  }

  /// FoldShape::Tree in the canonical order, as AnyFold::tree() has it: a complete binary tree, the first leaves of
  /// which are of two operands. `done` counts the operands that are folded, those of leaves of one twice: its digits
  /// are the subtrees that wait for another.
  TUTTI_DEVICE Value folded(Index at) const {
    Value waiting[16];
    uint32_t leaves = 1;
    while (2 * leaves <= sources_) leaves *= 2;
    const uint32_t in_pairs = 2 * (sources_ - leaves);
    uint32_t done = 0;
    Value value{};
    TUTTI_HD_ROLLED
    for (uint32_t j = 0; j < sources_; ++j) {
      Value next = source(j, at);
      if (tree_) {
        const uint32_t size = j < in_pairs ? 1 : 2;
        uint32_t depth = ptx::ones(done);
        TUTTI_HD_ROLLED
        for (uint32_t digit = size; (done & digit) != 0; digit <<= 1) next = node(waiting[--depth], next);
        waiting[depth] = next;
        done += size;
      } else if (j != 0) {
        next = node(value, next);
      }
      value = next;
    }
    return value;
  }

  const unsigned char* const* operands_;
  const Source source_;
  uint32_t sources_, divide_by_;
  int32_t scaled_;
  bool rounds_, tree_;
  Value scale_{};
};

/// Bytes to the next whole pack.
TUTTI_DEVICE uint64_t to_whole_pack(const void* at) {
  return (0 - reinterpret_cast<uintptr_t>(at)) % sizeof(ptx::Pack);
}

/// Calls pack(at) and element(at) for all bytes of a segment, in steps of `unit` bytes, each thread for its own.
/// `alike`: all operands and destinations lie alike within a pack, the first whole one of which begins at `head`.
template <class Packs, class Elements>
TUTTI_DEVICE void each(uint64_t bytes, uint32_t unit, bool alike, uint64_t head, Packs&& packs, Elements&& elements) {
  const uint64_t thread = ptx::thread_index(), threads = ptx::block_size();
  head = alike && head < bytes ? head : bytes;
  const uint64_t body = (bytes - head) / sizeof(ptx::Pack) * sizeof(ptx::Pack);
  TUTTI_HD_ROLLED
  for (uint64_t at = thread * unit; at < bytes - body; at += threads * unit) elements(at < head ? at : at + body);
  TUTTI_HD_ROLLED
  for (uint64_t at = head + thread * sizeof(ptx::Pack); at < head + body; at += threads * sizeof(ptx::Pack)) packs(at);
}

TUTTI_DEVICE void store_as(unsigned char* at, const ptx::Pack& pack) { ptx::store_pack(at, pack); }
template <class T>
TUTTI_DEVICE void store_as(unsigned char* at, const T& element) {
  *reinterpret_cast<T*>(at) = element;
}

template <class T>
TUTTI_DEVICE void store_both(unsigned char* to, unsigned char* slot, uint64_t at, const T& value) {
  if (to != nullptr) store_as(to + at, value);
  if (slot != nullptr) store_as(slot + at, value);
}

/// to[0, bytes) = slot[0, bytes) = from[0, bytes); `to` or `slot` may be null. By bytes of `unit`, to which all are
/// aligned.
template <class Unit>
TUTTI_DEVICE void copy_block(unsigned char* to, unsigned char* slot, const unsigned char* from, uint64_t bytes) {
  const uint64_t head = to_whole_pack(from);
  const bool alike = (to == nullptr || to_whole_pack(to) == head) && (slot == nullptr || to_whole_pack(slot) == head);
  each(
      bytes, sizeof(Unit), alike, head, [&](uint64_t at) { store_both(to, slot, at, ptx::load_pack(from + at)); },
      [&](uint64_t at) { store_both(to, slot, at, *reinterpret_cast<const Unit*>(from + at)); });
}

template <class T, Op kOp>
TUTTI_DEVICE void fold_block(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                             unsigned char* slot, const unsigned char* const* operands,
                             FromMemory<typename T::Stored> source) {
  const Fold<T, kOp, FromMemory<typename T::Stored>> fold(how, op, segment, operands, source);
  const uint64_t head = to_whole_pack(operands[0]);
  bool alike = fold.by_packs() && (to == nullptr || to_whole_pack(to) == head) &&
               (slot == nullptr || to_whole_pack(slot) == head);
  TUTTI_HD_ROLLED
  for (uint32_t j = 1; j < op.sources; ++j) alike = alike && to_whole_pack(operands[j]) == head;
  each(
      segment.bytes, sizeof(typename T::Stored), alike, head,
      [&](uint64_t at) { store_both(to, slot, at, fold.pack(at)); },
      [&](uint64_t at) { store_both(to, slot, at, fold.element(at)); });
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
