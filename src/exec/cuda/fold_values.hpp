// The arithmetic of a fold: what a thread computes of the elements, or packs of elements, at one place of all operands.
// The same bits as src/reduce: the same operations on the same types in the same order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/arithmetic.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/divide.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/state.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// Operands in memory.
template <class Stored>
struct FromMemory {
  TUTTI_DEVICE Stored element(const unsigned char* operand, uint32_t at) const {
    return *reinterpret_cast<const Stored*>(operand + at);
  }
};

/// A fold of one segment: what is equal for all its elements. `Source`: how elements of operands are read.
template <class T, Op kOp, class Source>
class Fold {
 public:
  using Stored = typename T::Stored;
  using Value = typename T::Value;

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

  /// Packs that a thread loads before it uses the first of them.
  static constexpr uint32_t kInFlight = 4;

  /// A tree keeps several values of each element: it is folded one by one.
  TUTTI_DEVICE bool by_packs() const { return !tree_; }

  /// The pack at byte `at`. Needs by_packs().
  TUTTI_DEVICE ptx::Pack pack(uint32_t at) const {
    if (kRolled && sources_ <= kInFlight) {
      ptx::Pack loaded[kInFlight];
      load(0, at, loaded);
      return fold_loaded(loaded);
    }
    ptx::Pack folded{};
    TUTTI_HD_ROLLED
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      Part parts[kPassParts];
      ptx::Pack loaded[kAtATime];
      load(0, at, loaded, pass);
      each_part<kPassParts>([&] {
        Part part;
        begin(first_of(loaded[0]), part);
        add<1>(0, loaded, part);
        next(loaded);
        next(parts, part);
      });
      TUTTI_HD_ROLLED
      for (uint32_t j = kAtATime; j < sources_; j += kAtATime) {
        load(j, at, loaded, pass);
        each_part<kPassParts>([&] {
          Part part = parts[0];
          add<0>(j, loaded, part);
          next(loaded);
          next(parts, part);
        });
      }
      each_part<kPassParts>([&] {
        next(folded, end_of(parts[0]));
        next(parts, parts[0]);
      });
    }
    return folded;
  }

  /// The same of at most kInFlight operands that were loaded: each part by itself, so few values are there at a time.
  template <uint32_t kCount>
  TUTTI_DEVICE ptx::Pack fold_loaded(ptx::Pack (&loaded)[kCount]) const {
    each_part<kParts>([&] {
      Part part;
      begin(first_of(loaded[0]), part);
      add<1>(0, loaded, part);
      TUTTI_HD_UNROLLED
      for (uint32_t i = 1; i < kCount; ++i) next(loaded[i], {});
      next(loaded[0], end_of(part));
    });
    return loaded[0];
  }

  /// The element at byte `at`.
  TUTTI_DEVICE Stored element(uint32_t at) const { return finished(folded(at)); }

 private:
  // A pack of elements of 1 byte is folded part by part, in words: all at once would be too many values, and too much
  // code. The loop over the parts takes the first one and moves the others up, since registers have no index. A pack of
  // longer elements is one part.
  static constexpr bool kRolled = sizeof(Stored) == 1;
  using Bits = std::conditional_t<kRolled, uint32_t, ptx::Pack>;
  static constexpr uint32_t kParts = sizeof(ptx::Pack) / sizeof(Bits);
  /// Integers of 1 byte stay in their word: values of their own would take a register each.
  static constexpr bool kBytes = sizeof(Value) == 1;
  /// Of more operands than are loaded at a time the values are kept from one load to the next: of half a pack, if there
  /// are as many as 16 in one. The other half is loaded again, out of the cache.
  static constexpr uint32_t kPasses = kRolled && !kBytes ? 2 : 1, kPassParts = kParts / kPasses;
  /// Then there are registers for so many loads at a time.
  static constexpr uint32_t kAtATime = kRolled ? 2 : kInFlight;
  static constexpr uint32_t kValues = kBytes ? 1 : sizeof(Bits) / sizeof(Stored);
  /// The values of a part.
  struct Part {
    std::conditional_t<kBytes, uint32_t, Value> of[kValues];
  };

  template <uint32_t kCount, class Body>
  TUTTI_DEVICE static void each_part(Body&& body) {
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < kCount; ++i) body();
  }
  TUTTI_DEVICE static Bits first_of(const ptx::Pack& pack) {
    if constexpr (kRolled) {
      return pack.words[0];
    } else {
      return pack;
    }
  }
  /// All move up, and `last` comes behind them.
  TUTTI_DEVICE static void next(ptx::Pack& pack, Bits last) {
    if constexpr (kRolled) {
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < 3; ++i) pack.words[i] = pack.words[i + 1];
      pack.words[3] = last;
    } else {
      pack = last;
    }
  }
  template <uint32_t kCount>
  TUTTI_DEVICE static void next(ptx::Pack (&loaded)[kCount]) {
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) next(loaded[i], {});
  }
  TUTTI_DEVICE static void next(Part (&parts)[kPassParts], const Part& last) {
    const Part behind = last;
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i + 1 < kPassParts; ++i) parts[i] = parts[i + 1];
    parts[kPassParts - 1] = behind;
  }

  /// The packs of the operands from number `j` on; the pass's parts come first. Beyond the last operand some other is
  /// loaded again: a load under a condition would be waited for at once.
  template <uint32_t kCount>
  TUTTI_DEVICE void load(uint32_t j, uint32_t at, ptx::Pack (&loaded)[kCount], uint32_t pass = 0) const {
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) {
      loaded[i] = ptx::begin_load(operands_[j + i < sources_ ? j + i : j] + at);
    }
    if constexpr (kPasses > 1) {
      if (pass == 0) return;
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kPassParts; ++i) next(loaded);
    }
  }

  /// A part of operand 0.
  TUTTI_DEVICE void begin(Bits bits, Part& part) const {
    if constexpr (kBytes) {
      part.of[0] = scaled(0, bits);
    } else {
      TUTTI_HD_UNROLLED
      for (uint32_t e = 0; e < kValues; ++e) {
        part.of[e] = operand(0, element_of(bits, e));
        if constexpr (kRolled) ptx::one_by_one();
      }
    }
  }
  /// Adds a part of operands kFirst, … of those loaded, which begin with number `j`; as far as there are any.
  template <uint32_t kFirst, uint32_t kCount>
  TUTTI_DEVICE void add(uint32_t j, const ptx::Pack (&loaded)[kCount], Part& part) const {
    TUTTI_HD_UNROLLED
    for (uint32_t i = kFirst; i < kCount; ++i) {
      if (j + i < sources_) add(j + i, first_of(loaded[i]), part);
    }
  }
  TUTTI_DEVICE void add(uint32_t j, Bits bits, Part& part) const {
    if constexpr (kBytes) {
      part.of[0] = by_bytes(part.of[0], scaled(j, bits), [&](Value x, Value y) { return node(x, y); });
    } else {
      TUTTI_HD_UNROLLED
      for (uint32_t e = 0; e < kValues; ++e) {
        part.of[e] = node(part.of[e], operand(j, element_of(bits, e)));
        if constexpr (kRolled) ptx::one_by_one();
      }
    }
  }
  TUTTI_DEVICE Bits end_of(const Part& part) const {
    if constexpr (kBytes) {
      return by_bytes(part.of[0], 0, [&](Value x, Value) { return finished(x); });
    } else {
      Bits bits{};
      TUTTI_HD_UNROLLED
      for (uint32_t e = 0; e < kValues; ++e) {
        set_element(bits, e, finished(part.of[e]));
        if constexpr (kRolled) ptx::one_by_one();
      }
      return bits;
    }
  }

  // By shifts: an array of short elements would lie in memory.
  TUTTI_DEVICE static uint32_t& word_of(Bits& bits, uint32_t e) {
    if constexpr (kRolled) {
      return bits;
    } else {
      return bits.words[e * sizeof(Stored) / 4];
    }
  }
  TUTTI_DEVICE static Stored element_of(Bits bits, uint32_t e) {
    Stored element;
    if constexpr (sizeof(Stored) < 4) {
      element = static_cast<Stored>(word_of(bits, e) >> 8 * (e * sizeof(Stored) % 4));
    } else {
      __builtin_memcpy(&element, &word_of(bits, e), sizeof element);
    }
    return element;
  }
  /// The bits of the element are 0.
  TUTTI_DEVICE static void set_element(Bits& bits, uint32_t e, Stored element) {
    if constexpr (sizeof(Stored) < 4) {
      using Unsigned = std::make_unsigned_t<Stored>;
      word_of(bits, e) |= uint32_t{static_cast<Unsigned>(element)} << 8 * (e * sizeof(Stored) % 4);
    } else {
      __builtin_memcpy(&word_of(bits, e), &element, sizeof element);
    }
  }

  /// Four bytes of operand `j`.
  TUTTI_DEVICE uint32_t scaled(uint32_t j, uint32_t word) const {
    if (static_cast<int32_t>(j) != scaled_) return word;
    return by_bytes(word, 0, [&](Value x, Value) { return combine<Value, Op::Prod>(x, scale_); });
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

  TUTTI_DEVICE Value settle(Value value) const { return rounds_ ? T::widen(T::narrow(value)) : value; }
  TUTTI_DEVICE Value node(Value a, Value b) const { return settle(combine<Value, kOp>(a, b)); }
  TUTTI_DEVICE Value operand(uint32_t j, Stored stored) const {
    const Value value = T::widen(stored);
    return static_cast<int32_t>(j) == scaled_ ? settle(combine<Value, Op::Prod>(value, scale_)) : value;
  }
  TUTTI_DEVICE Value source(uint32_t j, uint32_t at) const { return operand(j, source_.element(operands_[j], at)); }

  TUTTI_DEVICE Stored finished(Value value) const {
    if (kOp != Op::Sum || divide_by_ <= 1) return T::narrow(value);
    return T::narrow(divided(value, divide_by_));
  }

  /// FoldShape::Tree in the canonical order, as AnyFold::tree() has it: a complete binary tree, the first leaves of
  /// which are of two operands. `done` counts the operands that are folded, those of leaves of one twice: its digits
  /// are the subtrees that wait for another.
  TUTTI_DEVICE Value folded(uint32_t at) const {
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

}  // namespace tutti::exec::cuda
