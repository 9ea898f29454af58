// Per-target: the loops of a fold over `Lanes` (how an element type is computed with) and `Op` (what a node does).
//
// `fold` splits the buffers into a head up to an aligned store (streaming only), full registers, and a tail shorter
// than a register. What is asked for most — operands from left to right, nothing else — runs in `fold_plain`, a few
// registers at a time. The rest (trees, scaling, dividing, rounding at nodes, heads and tails) runs register by
// register in `fold_any`.
#include <cstring>
#include <type_traits>

#include "base/fold.hpp"

#if defined(TUTTI_BASE_FOLD_ENGINE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_BASE_FOLD_ENGINE_INL_HPP_
#undef TUTTI_BASE_FOLD_ENGINE_INL_HPP_
#else
#define TUTTI_BASE_FOLD_ENGINE_INL_HPP_
#endif

#include "base/fold_lanes-inl.hpp"
#include "base/fold_ops-inl.hpp"
#include "base/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

/// Folds one register's worth of elements with every option a call can ask for.
template <class Lanes, class Op>
class AnyFold {
 public:
  using Value = typename Lanes::Value;

  AnyFold(const FoldCall& call, bool is_signed)
      : call_(call), is_signed_(is_signed), rounds_(Lanes::kRounds && call.round_each), scaled_(call.scaled_source) {
    if constexpr (Op::kIsSum) {
      if (scaled_ >= 0) scale_ = Lanes::widen(load_repeated<typename Lanes::Element>(call.scale));
    }
    if (call.shape == FoldShape::Tree) {
      while (uint64_t{2} * leaves_ <= call.source_count) leaves_ *= 2;
    }
  }

  /// The elements in bytes [at, at + size) of the buffers; size ≤ one register.
  Raw operator()(size_t at, size_t size) const {
    Value value = leaves_ > 1 ? tree(0, leaves_, at, size) : left(at, size);
    if constexpr (Op::kIsSum) {
      if (call_.divide_by > 1) value = divide<Lanes>(value, call_.divide_by, is_signed_);
    }
    return Lanes::narrow(value);
  }

 private:
  Value settle(const Value& value) const {
    if constexpr (Lanes::kRounds) {
      if (rounds_) return Lanes::widen(Lanes::narrow(value));
    }
    return value;
  }

  Value source(uint32_t j, size_t at, size_t size) const {
    const Value value = Lanes::widen(load_some(call_.sources[j] + at, size));
    if constexpr (Op::kIsSum) {
      if (static_cast<int64_t>(j) == scaled_) return settle(combine<Lanes, Multiply>(value, scale_));
    }
    return value;
  }

  Value left(size_t at, size_t size) const {
    Value value = source(0, at, size);
    for (uint32_t j = 1; j < call_.source_count; ++j) {
      value = settle(combine<Lanes, Op>(value, source(j, at, size)));
    }
    return value;
  }

  /// Leaves [first, first + count) of the canonical tree; the first `source_count − leaves_` leaves are pairs.
  Value tree(uint32_t first, uint32_t count, size_t at, size_t size) const {
    if (count > 1) {
      const Value low = tree(first, count / 2, at, size);
      return settle(combine<Lanes, Op>(low, tree(first + count / 2, count / 2, at, size)));
    }
    const uint32_t pairs = call_.source_count - leaves_;
    if (first >= pairs) return source(first + pairs, at, size);
    const Value low = source(2 * first, at, size);
    return settle(combine<Lanes, Op>(low, source(2 * first + 1, at, size)));
  }

  const FoldCall& call_;
  const bool is_signed_, rounds_;
  const int64_t scaled_;
  uint32_t leaves_ = 1;  // of the tree; 1: from left to right
  Value scale_{};
};

template <class Lanes, class Op>
HWY_NOINLINE void fold_any(const FoldCall& call, const Output& out, size_t at, size_t end, bool is_signed) {
  const AnyFold<Lanes, Op> folded(call, is_signed);
  for (; end - at >= kRawBytes; at += kRawBytes) out.put(at, folded(at, kRawBytes));
  if (at < end) out.put_some(at, end - at, folded(at, end - at));
}

/// Left to right over full blocks of registers; returns where it stopped. kSources = 0: as many as the call says.
template <class Lanes, class Op, uint32_t kSources>
HWY_NOINLINE size_t fold_plain(const FoldCall& call, const Output& out, size_t at, size_t end) {
  constexpr size_t kBlock = Lanes::kVectors == 4 ? 1 : 4;  // registers at a time: as many as stay in registers
  const std::byte* const first = call.sources[0];
  const std::byte* const second = call.sources[1];
  for (; end - at >= kBlock * kRawBytes; at += kBlock * kRawBytes) {
    typename Lanes::Value value[kBlock];
    for (size_t b = 0; b < kBlock; ++b) {
      const size_t here = at + b * kRawBytes;
      value[b] = combine<Lanes, Op>(Lanes::widen(load(first + here)), Lanes::widen(load(second + here)));
    }
    if constexpr (kSources == 0) {
      for (uint32_t j = 2; j < call.source_count; ++j) {
        const std::byte* const source = call.sources[j] + at;
        for (size_t b = 0; b < kBlock; ++b) {
          value[b] = combine<Lanes, Op>(value[b], Lanes::widen(load(source + b * kRawBytes)));
        }
      }
    }
    for (size_t b = 0; b < kBlock; ++b) out.put(at + b * kRawBytes, Lanes::narrow(value[b]));
  }
  return at;
}

template <class Lanes, class Op>
void fold(const FoldCall& call, bool is_signed) {
  const size_t end = call.count * sizeof(typename Lanes::Element);
  const uint32_t k = call.source_count;
  const bool adorned = Op::kIsSum && (call.scaled_source >= 0 || call.divide_by > 1);
  if (k == 1 && !adorned) {
    copy_bytes(call.dst != nullptr ? call.dst : call.dst2, call.dst != nullptr ? call.dst2 : nullptr, call.sources[0],
               end, call.stream && call.dst != nullptr);
    return;
  }
  const Output out(call.dst, call.dst2, call.stream, sizeof(typename Lanes::Element));
  size_t at = out.head(end);
  if (at > 0) fold_any<Lanes, Op>(call, out, 0, at, is_signed);
  // Up to three operands the tree is the left fold; one node rounds once anyway.
  const bool plain =
      !adorned && (call.shape == FoldShape::Left || k <= 3) && !(Lanes::kRounds && call.round_each && k > 2);
  if (plain && end - at >= 4 * kRawBytes) {
    at = k == 2 ? fold_plain<Lanes, Op, 2>(call, out, at, end) : fold_plain<Lanes, Op, 0>(call, out, at, end);
  }
  if (at < end) fold_any<Lanes, Op>(call, out, at, end, is_signed);
  out.finish();
}

template <class Lanes, class Op, bool kSigned = false>
void kernel(const FoldCall& call) {
  fold<Lanes, Op>(call, kSigned);
}

/// The kernel of `Op` for each type. Signed and unsigned integers share the lanes where their bits come out the same.
template <class Op>
FoldFn kernel_of(DType type) {
  using I8 = std::conditional_t<Op::kOrders, int8_t, uint8_t>;
  using I32 = std::conditional_t<Op::kOrders, int32_t, uint32_t>;
  using I64 = std::conditional_t<Op::kOrders, int64_t, uint64_t>;
  switch (type) {
    case DType::I8:
      return kernel<PlainLanes<I8>, Op, true>;
    case DType::U8:
      return kernel<PlainLanes<uint8_t>, Op>;
    case DType::I32:
      return kernel<PlainLanes<I32>, Op, true>;
    case DType::U32:
      return kernel<PlainLanes<uint32_t>, Op>;
    case DType::I64:
      return kernel<PlainLanes<I64>, Op, true>;
    case DType::U64:
      return kernel<PlainLanes<uint64_t>, Op>;
    case DType::F16:
      return kernel<F16Lanes, Op>;
    case DType::F32:
      return kernel<PlainLanes<float>, Op>;
    case DType::F64:
      return kernel<PlainLanes<double>, Op>;
    case DType::BF16:
      return kernel<Bf16Lanes, Op>;
    case DType::F8E4M3:
      return kernel<F8E4M3Lanes, Op>;
    case DType::F8E5M2:
      return kernel<F8E5M2Lanes, Op>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif
