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

/// A fold of one segment: what is equal for all its elements. A thread folds a chunk at a time, which is so many words
/// of all operands at one place. The operator is chosen anew for each, so that loads and stores are coded once.
template <class T, class Chunk>
class Fold {
 public:
  using Stored = typename T::Stored;
  using Value = typename T::Value;
  /// Chunks that a thread loads before it uses the first of them.
  static constexpr uint32_t kInFlight = 4;

  TUTTI_DEVICE Fold(const Arithmetic& how, const Instruction& op, const Segment& segment)
      : op_(how.op),
        sources_(op.sources),
        divide_by_(op.completes ? how.divide_by : 0),
        scaled_(how.scale != nullptr ? segment.raw : -1),
        rounds_(T::kRounds && how.round_each),
        tree_(op.shape == FoldShape::Tree && op.sources > 3) {
    if (scaled_ >= 0) scale_ = T::widen(*static_cast<const Stored*>(how.scale));
  }

  /// The chunks of all operands. load(j, end, loaded) loads those from number `j` on; in place of number `end` and
  /// those behind it, any.
  template <class Load>
  TUTTI_DEVICE Chunk chunk(const Load& load) const {
    Chunk folded{};
    TUTTI_HD_ROLLED
    for (uint32_t pass = 0; pass < kPasses; ++pass) fold_pass(load, pass, folded);
    return folded;
  }

  /// The chunk of two operands that were loaded.
  TUTTI_DEVICE Chunk two(Chunk first, Chunk second) const {
    each_part<kParts>([&] {
      Part part{};
      with_operator([&]<Op kOp>() {
        TUTTI_HD_UNROLLED
        for (uint32_t e = 0; e < kValues; ++e) {
          part.of[e] = node<kOp>(value<kOp>(0, first_of(first), e), value<kOp>(1, first_of(second), e));
        }
      });
      next(second, {});
      next(first, end_of(part));
    });
    return first;
  }

  /// An element of all operands; load(j) loads that of number `j`.
  template <class Load>
  TUTTI_DEVICE Stored element(const Load& load) const {
    return finished(folded(load));
  }

 private:
  // A chunk of elements of 1 byte is folded part by part, in words: all at once would be too many values, and too much
  // code. The loop over the parts takes the first one and moves the others up, since registers have no index. A chunk
  // of longer elements is one part.
  static constexpr bool kRolled = sizeof(Stored) == 1;
  using Bits = std::conditional_t<kRolled, uint32_t, Chunk>;
  static constexpr uint32_t kParts = sizeof(Chunk) / sizeof(Bits);
  /// Integers of 1 byte stay in their word: values of their own would take a register each.
  static constexpr bool kBytes = sizeof(Value) == 1;
  /// The values are kept from one load to the next: of half a chunk, if it has as many as 16. The other half is loaded
  /// again, out of the cache.
  static constexpr uint32_t kPasses = kRolled && !kBytes && kParts == 4 ? 2 : 1, kPassParts = kParts / kPasses;
  static constexpr uint32_t kValues = kBytes ? 1 : sizeof(Bits) / sizeof(Stored);
  static constexpr uint32_t kDeepest = 8;  ///< of a tree of gpu::kMaxOperands: subtrees that wait
  static constexpr Op kRoundedSum = static_cast<Op>(kOps), kRoundedProd = static_cast<Op>(kOps + 1);
  /// What one operation works on: a value, or four bytes.
  using Lane = std::conditional_t<kBytes, uint32_t, Value>;
  struct Part {
    Lane of[kValues];
  };
  /// Operands that are folded at a time: kInFlight at most.
  struct Operands {
    uint32_t first, count;
  };

  template <uint32_t kCount, class Body>
  TUTTI_DEVICE static void each_part(Body&& body) {
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < kCount; ++i) body();
  }
  TUTTI_DEVICE static Bits first_of(const Chunk& chunk) {
    if constexpr (kRolled) {
      return chunk.words[0];
    } else {
      return chunk;
    }
  }
  /// All move up, and `last` comes behind them.
  TUTTI_DEVICE static void next(Chunk& chunk, Bits last) {
    if constexpr (kRolled) {
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i + 1 < kParts; ++i) chunk.words[i] = chunk.words[i + 1];
      chunk.words[kParts - 1] = last;
    } else {
      chunk = last;
    }
  }
  TUTTI_DEVICE static void next(Chunk (&loaded)[kInFlight]) {
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kInFlight; ++i) next(loaded[i], {});
  }
  TUTTI_DEVICE static void next(Part (&parts)[kPassParts], const Part& last) {
    const Part behind = last;
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i + 1 < kPassParts; ++i) parts[i] = parts[i + 1];
    parts[kPassParts - 1] = behind;
  }

  /// Folds the pass's parts of all operands, and puts them behind `folded`: in order, four operands at a time. Of a
  /// tree it is two leaves, of two operands or, the last ones of all, of one. The sums of two leaves stay in registers;
  /// those of larger subtrees wait in memory for the subtree beside them, and the digits of `group` say which do.
  template <class Load>
  TUTTI_DEVICE void fold_pass(const Load& load, uint32_t pass, Chunk& folded) const {
    Part waiting[kDeepest][kPassParts];
    Part sums[kPassParts]{};
    uint32_t leaves = 2, depth = 0;
    while (2 * leaves < sources_) leaves *= 2;
    const uint32_t groups = tree_ ? leaves / 2 : (sources_ + kInFlight - 1) / kInFlight;
    TUTTI_HD_ROLLED
    for (uint32_t group = 0; group < groups; ++group) {
      const Operands operands = tree_ ? leaves_of(2 * group, sources_ - leaves) : four_of(group);
      Chunk loaded[kInFlight];
      load(operands.first, operands.first + operands.count, loaded);
      if (kPasses > 1 && pass != 0) {
        TUTTI_HD_UNROLLED
        for (uint32_t i = 0; i < kPassParts; ++i) next(loaded);
      }
      const bool joins = tree_ && (group & 1) != 0;
      uint32_t left = depth, place = 0;
      each_part<kPassParts>([&] {
        Part part = sums[0];
        with_operator([&]<Op kOp>() {
          if (!tree_) return in_order<kOp>(operands, loaded, part);
          of_leaves<kOp>(operands, loaded, part);
          if (!joins) return;
          join<kOp>(sums[0], part);
          left = depth;
          TUTTI_HD_ROLLED
          for (uint32_t digit = 2; (group & digit) != 0; digit <<= 1) join<kOp>(waiting[--left][place], part);
        });
        ++place;
        next(loaded);
        next(sums, part);
      });
      depth = left;
      if (!joins || group + 1 == groups) continue;
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kPassParts; ++i) waiting[depth][i] = sums[i];
      ++depth;
    }
    each_part<kPassParts>([&] {
      next(folded, end_of(sums[0]));
      next(sums, sums[0]);
    });
  }
  TUTTI_DEVICE Operands four_of(uint32_t group) const {
    const uint32_t first = kInFlight * group, rest = sources_ - first;
    return {first, rest < kInFlight ? rest : kInFlight};
  }
  /// Those of this leaf and the next one. The first `pairs` leaves have two.
  TUTTI_DEVICE static Operands leaves_of(uint32_t leaf, uint32_t pairs) {
    return {leaf + (leaf < pairs ? leaf : pairs), 2 + (leaf < pairs ? 1U : 0U) + (leaf + 1 < pairs ? 1U : 0U)};
  }

  /// Calls body.operator()<operator>(): Sum also for averages; kRoundedSum and kRoundedProd where each node is rounded.
  /// Operators on bits are launched with the kernel of the word that is as long as the type.
  template <class Body>
  TUTTI_DEVICE void with_operator(const Body& body) const {
    static_assert(kOps == 9, "an operator needs a case here: nvcc does not warn of a missing one");
    switch (op_) {
      case Op::Sum:
      case Op::Avg:
        return with_rounding<Op::Sum, kRoundedSum>(body);
      case Op::PreMulSum:
        return with_rounding<Op::PreMulSum, kRoundedSum>(body);
      case Op::Prod:
        return with_rounding<Op::Prod, kRoundedProd>(body);
      case Op::Min:
        return body.template operator()<Op::Min>();
      case Op::Max:
        return body.template operator()<Op::Max>();
      case Op::BitAnd:
        return with_bits<Op::BitAnd>(body);
      case Op::BitOr:
        return with_bits<Op::BitOr>(body);
      case Op::BitXor:
        return with_bits<Op::BitXor>(body);
    }
    ptx::trap();  // no operator
  }
  template <Op kOp, Op kRounded, class Body>
  TUTTI_DEVICE void with_rounding(const Body& body) const {
    if constexpr (T::kRounds) {
      if (rounds_) return body.template operator()<kRounded>();
    }
    body.template operator()<kOp>();
  }
  template <Op kOp, class Body>
  TUTTI_DEVICE static void with_bits(const Body& body) {
    if constexpr (std::is_unsigned_v<Value>) {
      body.template operator()<kOp>();
    } else {
      ptx::trap();
    }
  }

  // Those two fold four operands, and keep what there is of them: selecting takes less than a branch.

  /// (((part + a) + b) + c) + d; without `part` if `a` is the first of all operands.
  template <Op kOp>
  TUTTI_DEVICE void in_order(const Operands& operands, const Chunk (&loaded)[kInFlight], Part& part) const {
    TUTTI_HD_UNROLLED
    for (uint32_t e = 0; e < kValues; ++e) {
      Lane sum = value<kOp>(operands.first, first_of(loaded[0]), e);
      if (operands.first != 0) sum = node<kOp>(part.of[e], sum);
      TUTTI_HD_UNROLLED
      for (uint32_t i = 1; i < kInFlight; ++i) {
        const Lane longer = node<kOp>(sum, value<kOp>(operands.first + i, first_of(loaded[i]), e));
        sum = operands.count > i ? longer : sum;
      }
      part.of[e] = sum;
      if constexpr (kRolled) ptx::one_by_one();
    }
  }
  /// (a + b) + (c + d), (a + b) + c, or a + b.
  template <Op kOp>
  TUTTI_DEVICE void of_leaves(const Operands& operands, const Chunk (&loaded)[kInFlight], Part& part) const {
    TUTTI_HD_UNROLLED
    for (uint32_t e = 0; e < kValues; ++e) {
      const auto at = [&](uint32_t i) { return value<kOp>(operands.first + i, first_of(loaded[i]), e); };
      const Lane two = node<kOp>(at(0), at(1)), third = at(2), others = node<kOp>(third, at(3));
      const Lane all = node<kOp>(two, operands.count > 3 ? others : third);
      part.of[e] = operands.count > 2 ? all : two;
      if constexpr (kRolled) ptx::one_by_one();
    }
  }
  /// part = before + part
  template <Op kOp>
  TUTTI_DEVICE void join(const Part& before, Part& part) const {
    TUTTI_HD_UNROLLED
    for (uint32_t e = 0; e < kValues; ++e) part.of[e] = node<kOp>(before.of[e], part.of[e]);
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

  /// What there is at place `e` of operand `j`.
  template <Op kOp>
  TUTTI_DEVICE Lane value(uint32_t j, Bits bits, uint32_t e) const {
    constexpr bool kScales = kOp == Op::PreMulSum || kOp == kRoundedSum;
    if constexpr (kBytes) {
      if (!kScales || static_cast<int32_t>(j) != scaled_) return bits;
      return by_bytes(bits, 0, [&](Value x, Value) { return combine<Value, Op::Prod>(x, scale_); });
    } else {
      return kScales ? operand(j, element_of(bits, e)) : T::widen(element_of(bits, e));
    }
  }
  template <Op kOp>
  TUTTI_DEVICE static Lane node(Lane a, Lane b) {
    if constexpr (kBytes) {
      return by_bytes(a, b, [](Value x, Value y) { return combined<kOp>(x, y); });
    } else {
      return combined<kOp>(a, b);
    }
  }
  template <Op kOp>
  TUTTI_DEVICE static Value combined(Value a, Value b) {
    if constexpr (kOp == Op::PreMulSum) {
      return combine<Value, Op::Sum>(a, b);
    } else if constexpr (kOp == kRoundedSum) {
      return T::widen(T::narrow(combine<Value, Op::Sum>(a, b)));
    } else if constexpr (kOp == kRoundedProd) {
      return T::widen(T::narrow(combine<Value, Op::Prod>(a, b)));
    } else {
      return combine<Value, kOp>(a, b);
    }
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
  TUTTI_DEVICE Value operand(uint32_t j, Stored stored) const {
    const Value value = T::widen(stored);
    return static_cast<int32_t>(j) == scaled_ ? settle(combine<Value, Op::Prod>(value, scale_)) : value;
  }
  TUTTI_DEVICE Value any_node(Value a, Value b) const {
    Value sum{};
    with_operator([&]<Op kOp>() { sum = combined<kOp>(a, b); });
    return sum;
  }

  TUTTI_DEVICE Stored finished(Value value) const {
    return T::narrow(divide_by_ > 1 ? divided(value, divide_by_) : value);
  }

  /// FoldShape::Tree in the canonical order, as AnyFold::tree() has it: a complete binary tree, the first leaves of
  /// which are of two operands. `done` counts the operands that are folded, those of leaves of one twice: its digits
  /// are the subtrees that wait for another.
  template <class Load>
  TUTTI_DEVICE Value folded(const Load& load) const {
    Value waiting[16];
    uint32_t leaves = 1;
    while (2 * leaves <= sources_) leaves *= 2;
    const uint32_t in_pairs = 2 * (sources_ - leaves);
    uint32_t done = 0;
    Value value{};
    TUTTI_HD_ROLLED
    for (uint32_t j = 0; j < sources_; ++j) {
      Value next = operand(j, load(j));
      if (tree_) {
        const uint32_t size = j < in_pairs ? 1 : 2;
        uint32_t depth = ptx::ones(done);
        TUTTI_HD_ROLLED
        for (uint32_t digit = size; (done & digit) != 0; digit <<= 1) next = any_node(waiting[--depth], next);
        waiting[depth] = next;
        done += size;
      } else if (j != 0) {
        next = any_node(value, next);
      }
      value = next;
    }
    return value;
  }

  const Op op_;
  uint32_t sources_, divide_by_;
  int32_t scaled_;
  bool rounds_, tree_;
  Value scale_{};
};

}  // namespace tutti::exec::cuda
