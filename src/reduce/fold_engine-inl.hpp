// Per-target: a fold over `Lanes` (the arithmetic of an element type) and `Op` (the operator of a node).
//
// `PlainFold` computes the common case, operands from left to right without options, a few registers at a time.
// `AnyFold` computes the rest: trees, scaling, dividing, rounding at nodes.
#include <cstring>
#include <type_traits>

#include "reduce/fold.hpp"

#if defined(TUTTI_REDUCE_FOLD_ENGINE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FOLD_ENGINE_INL_HPP_
#undef TUTTI_REDUCE_FOLD_ENGINE_INL_HPP_
#else
#define TUTTI_REDUCE_FOLD_ENGINE_INL_HPP_
#endif

#include "reduce/fold_lanes-inl.hpp"
#include "reduce/fold_ops-inl.hpp"
#include "reduce/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

/// Folds from left to right. kSources = 2, or 0: the call's number of sources, at least 2.
template <class Lanes, class Op, uint32_t kSources>
class PlainFold {
 public:
  static constexpr size_t kBlock = Lanes::kVectors == 1 ? 2 : 1, kPagedBlock = 1;

  explicit PlainFold(const FoldCall& call)
      : first_(call.sources[0]), second_(call.sources[1]), sources_(call.sources), count_(call.source_count) {}

  uint32_t sources() const { return count_; }

  HWY_INLINE Raw some(size_t at, size_t size) const {
    auto value =
        combine<Lanes, Op>(Lanes::widen(load_some(first_ + at, size)), Lanes::widen(load_some(second_ + at, size)));
    if constexpr (kSources == 0) {
      for (uint32_t j = 2; j < count_; ++j) {
        value = combine<Lanes, Op>(value, Lanes::widen(load_some(sources_[j] + at, size)));
      }
    }
    return Lanes::narrow(value);
  }

  template <size_t kRegisters>
  HWY_INLINE void block(size_t at, const Output& out) const {
    typename Lanes::Value value[kRegisters];
    for (size_t b = 0; b < kRegisters; ++b) {
      const size_t here = at + b * kRawBytes;
      value[b] = combine<Lanes, Op>(Lanes::widen(load(first_ + here)), Lanes::widen(load(second_ + here)));
    }
    if constexpr (kSources == 0) {
      for (uint32_t j = 2; j < count_; ++j) {
        const std::byte* const source = sources_[j] + at;
        for (size_t b = 0; b < kRegisters; ++b) {
          value[b] = combine<Lanes, Op>(value[b], Lanes::widen(load(source + b * kRawBytes)));
        }
      }
    }
    for (size_t b = 0; b < kRegisters; ++b) out.put(at + b * kRawBytes, Lanes::narrow(value[b]));
  }

 private:
  const std::byte *const first_, *const second_;
  const std::byte* const* const sources_;
  const uint32_t count_;
};

/// Folds with all options of a call.
template <class Lanes, class Op>
class AnyFold {
 public:
  using Value = typename Lanes::Value;
  static constexpr size_t kBlock = 8, kPagedBlock = 8;

  AnyFold(const FoldCall& call, bool is_signed)
      : call_(call), is_signed_(is_signed), rounds_(Lanes::kRounds && call.round_each), scaled_(call.scaled_source) {
    if constexpr (Op::kIsSum) {
      if (scaled_ >= 0) scale_ = Lanes::widen(load_repeated<typename Lanes::Element>(call.scale));
    }
    if (call.shape == FoldShape::Tree) {
      while (uint64_t{2} * leaves_ <= call.source_count) leaves_ *= 2;
    }
  }

  uint32_t sources() const { return call_.source_count; }

  // Large bodies with several callers: not inlined.
  HWY_NOINLINE Raw some(size_t at, size_t size) const { return folded(at, size); }

  template <size_t kRegisters>
  HWY_NOINLINE void block(size_t at, const Output& out) const {
    for (size_t b = 0; b < kRegisters; ++b, at += kRawBytes) out.put(at, folded(at, kRawBytes));
  }

 private:
  HWY_INLINE Raw folded(size_t at, size_t size) const {
    Value value = leaves_ > 1 ? tree(at, size) : left(at, size);
    if constexpr (Op::kIsSum) {
      if (call_.divide_by > 1) value = divide<Lanes>(value, call_.divide_by, is_signed_);
    }
    return Lanes::narrow(value);
  }

  HWY_INLINE Value settle(const Value& value) const {
    if constexpr (Lanes::kRounds) {
      if (rounds_) return Lanes::widen(Lanes::narrow(value));
    }
    return value;
  }

  HWY_INLINE Value node(const Value& a, const Value& b) const { return settle(combine<Lanes, Op>(a, b)); }

  HWY_INLINE Value source(uint32_t j, size_t at, size_t size) const {
    const Value value = Lanes::widen(load_some(call_.sources[j] + at, size));
    if constexpr (Op::kIsSum) {
      if (static_cast<int64_t>(j) == scaled_) return settle(combine<Lanes, Operator<tutti::Op::Prod>>(value, scale_));
    }
    return value;
  }

  HWY_INLINE Value left(size_t at, size_t size) const {
    Value value = source(0, at, size);
    for (uint32_t j = 1; j < call_.source_count; ++j) value = node(value, source(j, at, size));
    return value;
  }

  /// The first `source_count − leaves_` leaves are pairs. After leaf l, the number of complete subtrees is the number
  /// of trailing zero bits of l + 1: each is combined with the one to its left.
  HWY_INLINE Value tree(size_t at, size_t size) const {
    Value waiting[32];
    size_t depth = 0;
    uint32_t j = 0;
    for (uint32_t leaf = 0; leaf < leaves_; ++leaf) {
      Value value = source(j++, at, size);
      if (leaf < call_.source_count - leaves_) value = node(value, source(j++, at, size));
      for (uint32_t complete = leaf; complete & 1; complete >>= 1) value = node(waiting[--depth], value);
      waiting[depth++] = value;
    }
    return waiting[0];
  }

  const FoldCall& call_;
  const bool is_signed_, rounds_;
  const int64_t scaled_;
  uint32_t leaves_ = 1;  // of the tree; 1: from left to right
  Value scale_{};
};

/// Separate functions, so that the rare paths do not slow down the common ones.
template <class Lanes, class Op, uint32_t kSources>
HWY_NOINLINE void fold_plain(const FoldCall& call, const Output& out, size_t bytes) {
  make(PlainFold<Lanes, Op, kSources>(call), out, bytes);
}

template <class Lanes, class Op>
HWY_NOINLINE void fold_any(const FoldCall& call, const Output& out, size_t bytes, bool is_signed) {
  make(AnyFold<Lanes, Op>(call, is_signed), out, bytes);
}

/// Processors without AVX2 (before 2013, and small ones since) fold all calls with the kernel of the rare ones, which
/// takes up to three times as long: others of their own would be a fifth of the compile time of all.
#if HWY_TARGET == HWY_SSE4 && !defined(HWY_COMPILE_ONLY_STATIC)
constexpr bool kHasPlain = false;
#else
constexpr bool kHasPlain = true;
#endif

template <class Lanes, class Op>
void fold(const FoldCall& call, bool is_signed) {
  const size_t bytes = call.count * sizeof(typename Lanes::Element);
  const uint32_t k = call.source_count;
  const Output out(call.dst, call.dst2, call.stream, sizeof(typename Lanes::Element));
  const bool has_scaling = Op::kIsSum && (call.scaled_source >= 0 || call.divide_by > 1);
  // For up to three operands the tree is the left fold; a single node rounds once anyway.
  const bool in_order = call.shape == FoldShape::Left || k <= 3;
  if (has_scaling || !in_order || (Lanes::kRounds && call.round_each && k > 2)) {
    fold_any<Lanes, Op>(call, out, bytes, is_signed);
  } else if (k >= 2) {
    if constexpr (!kHasPlain) {
      fold_any<Lanes, Op>(call, out, bytes, is_signed);
    } else if (k == 2) {
      fold_plain<Lanes, Op, 2>(call, out, bytes);
    } else {
      fold_plain<Lanes, Op, 0>(call, out, bytes);
    }
  } else {
    std::byte* const dst = call.dst != nullptr ? call.dst : call.dst2;
    copy_bytes(dst, call.dst != nullptr ? call.dst2 : nullptr, call.sources[0], bytes, call.stream && dst == call.dst);
  }
}

template <class Lanes, class Op, bool kSigned = false>
void kernel(const FoldCall& call) {
  fold<Lanes, Op>(call, kSigned);
}

/// What arithmetic on a number of this type uses: an operator that does not order integers has the same results for
/// unsigned ones, which so share their kernels.
template <class T, bool kUnsigned>
struct Computed {
  using Type = T;
};
template <class T>
struct Computed<T, true> {
  using Type = std::make_unsigned_t<T>;
};

/// The kernel of an operator for each type.
template <Op kOp, bool kOnBits = acts_on_bits(kOp)>
struct Kernels {
  template <class T>
  using Plain = PlainLanes<typename Computed<T, std::is_integral_v<T> && !Operator<kOp>::kOrders>::Type>;
  using F16 = F16Lanes;
  using Bf16 = Bf16Lanes;
  using F8E4M3 = F8E4M3Lanes;
  using F8E5M2 = F8E5M2Lanes;

  static FoldFn of(DType type) {
    switch (type) {
#define TUTTI_TYPE(name, text, bytes, kind, c, arithmetic, ...) \
  case DType::name:                                             \
    return kernel<arithmetic, Operator<kOp>, is_signed_integer(DType::name)>;
      TUTTI_TYPES(TUTTI_TYPE)
#undef TUTTI_TYPE
    }
    return nullptr;
  }
};

/// Bits are words of any type.
template <Op kOp>
struct Kernels<kOp, true> {
  static FoldFn of(DType type) {
    switch (size_of(type)) {
      case 1:
        return kernel<PlainLanes<uint8_t>, Operator<kOp>>;
      case 2:
        return kernel<PlainLanes<uint16_t>, Operator<kOp>>;
      case 4:
        return kernel<PlainLanes<uint32_t>, Operator<kOp>>;
      default:
        return kernel<PlainLanes<uint64_t>, Operator<kOp>>;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif
