// Per-target: converts a register of bytes to lanes for arithmetic, and back.
//
// All kernels load and store full registers of bytes (`Raw`). `Lanes::widen` turns one into a group of vectors of the
// computation type: the element type itself, or f32 in 2 (16-bit floats) or 4 (8-bit floats) vectors. Folds work lane
// by lane, so the order of lanes within a group is free: taking every second half-word of a register costs a shift,
// taking its lower half a shuffle.
#include <cstddef>
#include <cstdint>

#include "reduce/convert.hpp"
#include "reduce/simd_targets.hpp"

#if defined(TUTTI_REDUCE_FOLD_LANES_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FOLD_LANES_INL_HPP_
#undef TUTTI_REDUCE_FOLD_LANES_INL_HPP_
#else
#define TUTTI_REDUCE_FOLD_LANES_INL_HPP_
#endif

#include "hwy/highway.h"
#include "reduce/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

using Words = hn::ScalableTag<uint32_t>;
using Ints = hn::ScalableTag<int32_t>;
using Floats = hn::ScalableTag<float>;
using WordVec = hn::Vec<Words>;
using FloatVec = hn::Vec<Floats>;

template <class V, size_t kSize>
struct Group {
  V v[kSize];
};

/// Types whose arithmetic uses the type itself: 1 vector. Integers are unsigned if the sign does not matter.
template <class T>
struct PlainLanes {
  using Element = T;
  using Tag = hn::ScalableTag<T>;
  using Value = Group<hn::Vec<Tag>, 1>;
  static constexpr size_t kVectors = 1;
  static constexpr bool kRounds = false;  // no rounding is needed after a node
  static HWY_INLINE Value widen(Raw raw) { return Value{{hn::BitCast(Tag(), raw)}}; }
  static HWY_INLINE Raw narrow(const Value& value) { return hn::BitCast(Bytes(), value.v[0]); }
};

HWY_INLINE WordVec select_nan(FloatVec value, WordVec nan, WordVec otherwise) {
  return hn::IfThenElse(hn::RebindMask(Words(), hn::Eq(value, value)), otherwise, nan);
}

/// bf16: the upper half of an f32.
struct Bf16Lanes {
  using Element = uint16_t;
  using Tag = Floats;
  using Value = Group<FloatVec, 2>;
  static constexpr size_t kVectors = 2;
  static constexpr bool kRounds = true;

  static HWY_INLINE Value widen(Raw raw) {
    const auto words = hn::BitCast(Words(), raw);
    return Value{{hn::BitCast(Floats(), hn::ShiftLeft<16>(words)),
                  hn::BitCast(Floats(), hn::And(words, hn::Set(Words(), 0xFFFF0000u)))}};
  }
  static HWY_INLINE Raw narrow(const Value& value) {
    const auto even = hn::ShiftRight<16>(rounded(value.v[0]));
    const auto odd = hn::And(rounded(value.v[1]), hn::Set(Words(), 0xFFFF0000u));
    return hn::BitCast(Bytes(), hn::Or(even, odd));
  }

 private:
  static HWY_INLINE WordVec rounded(FloatVec value) {
    const auto bits = hn::BitCast(Words(), value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1u));
    const auto nearest = hn::Add(hn::Add(bits, hn::Set(Words(), 0x7FFFu)), odd);
    return select_nan(value, hn::Or(bits, hn::Set(Words(), 0x400000u)), nearest);
  }
};

/// A small float without instructions for it, in integer arithmetic. SmallFloat in convert.hpp is the scalar version.
template <class Format, class T>
struct SmallLanes {
  using Element = T;
  using Tag = Floats;
  static constexpr size_t kVectors = 4 / sizeof(T);
  static constexpr int kBits = 8 * sizeof(T);
  static constexpr bool kRounds = true;
  using Value = Group<FloatVec, kVectors>;

  static HWY_INLINE Value widen(Raw raw) {
    const auto words = hn::BitCast(Words(), raw);
    Value value;
    value.v[0] = widen_words(words);
    value.v[1] = widen_words(hn::ShiftRight<kBits>(words));
    if constexpr (kVectors == 4) {
      value.v[2] = widen_words(hn::ShiftRight<16>(words));
      value.v[3] = widen_words(hn::ShiftRight<24>(words));
    }
    return value;
  }
  static HWY_INLINE Raw narrow(const Value& value) {
    auto words = hn::Or(narrow_words(value.v[0]), hn::ShiftLeft<kBits>(narrow_words(value.v[1])));
    if constexpr (kVectors == 4) {
      words = hn::Or(words,
                     hn::Or(hn::ShiftLeft<16>(narrow_words(value.v[2])), hn::ShiftLeft<24>(narrow_words(value.v[3]))));
    }
    return hn::BitCast(Bytes(), words);
  }

 private:
  static constexpr int kSignShift = 31 - Format::kExponent - Format::kMantissa;

  static HWY_INLINE WordVec set(uint32_t value) { return hn::Set(Words(), value); }
  static HWY_INLINE auto less(WordVec a, uint32_t b) {  // signed, because SSE has no unsigned comparison
    return hn::RebindMask(Words(), hn::Lt(hn::BitCast(Ints(), a), hn::Set(Ints(), static_cast<int32_t>(b))));
  }

  /// The encoding is in the lowest bits of each word; the bits above it are undefined.
  static HWY_INLINE FloatVec widen_words(WordVec words) {
    const auto magnitude = hn::And(words, set(Format::kMagnitude));
    const auto sign = hn::And(hn::ShiftLeft<kSignShift>(words), set(0x80000000u));
    const auto subnormal =
        hn::Mul(hn::ConvertTo(Floats(), hn::BitCast(Ints(), magnitude)), hn::BitCast(Floats(), set(Format::kUnitBits)));
    const auto normal = hn::Add(hn::ShiftLeft<Format::kShift>(magnitude), set(Format::kRebias << 23));
    auto bits = hn::IfThenElse(less(magnitude, 1u << Format::kMantissa), hn::BitCast(Words(), subnormal), normal);
    const auto nan_or_infinity =
        Format::kInfinity > Format::kLargestFinite ? hn::Or(normal, set(0x7F800000u)) : set(0x7FC00000u);
    bits = hn::IfThenElse(less(magnitude, Format::kLargestFinite + 1), bits, nan_or_infinity);
    return hn::BitCast(Floats(), hn::Or(bits, sign));
  }

  /// The encoding in the lowest bits of each word, zeros above.
  static HWY_INLINE WordVec narrow_words(FloatVec value) {
    const auto bits = hn::BitCast(Words(), value);
    const auto magnitude = hn::And(bits, set(0x7FFFFFFFu));
    const auto odd = hn::And(hn::ShiftRight<Format::kShift>(magnitude), set(1));
    const auto nearest = hn::Add(hn::Add(magnitude, set((1u << (Format::kShift - 1)) - 1)), odd);
    const auto normal = hn::Sub(hn::ShiftRight<Format::kShift>(nearest), set(Format::kRebias << Format::kMantissa));
    // Adding a number whose last mantissa bit is this format's smallest unit makes the adder round to that unit.
    const auto align = set(Format::kAlignBits);
    const auto aligned = hn::Add(hn::BitCast(Floats(), magnitude), hn::BitCast(Floats(), align));
    const auto subnormal = hn::Sub(hn::BitCast(Words(), aligned), align);
    auto small = hn::IfThenElse(less(magnitude, Format::kSmallestNormal), subnormal, normal);
    small = hn::IfThenElse(less(small, Format::kLargestFinite + 1), small, set(Format::kOverflow));
    if constexpr (Format::kInfinity != Format::kOverflow) {
      small = hn::IfThenElse(less(magnitude, 0x7F800000u), small, set(Format::kInfinity));
    }
    small = select_nan(value, set(Format::kNan), small);
    return hn::Or(small, hn::ShiftRight<kSignShift>(hn::And(bits, set(0x80000000u))));
  }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
/// f16 with the processor's own conversions.
struct F16Lanes {
  using Element = uint16_t;
  using Tag = Floats;
  using Value = Group<FloatVec, 2>;
  static constexpr size_t kVectors = 2;
  static constexpr bool kRounds = true;

  static HWY_INLINE Value widen(Raw raw) {
    return Value{{hn::PromoteTo(Floats(), hn::BitCast(Half(), hn::LowerHalf(HalfBytes(), raw))),
                  hn::PromoteTo(Floats(), hn::BitCast(Half(), hn::UpperHalf(HalfBytes(), raw)))}};
  }
  static HWY_INLINE Raw narrow(const Value& value) {
    return hn::Combine(Bytes(), hn::BitCast(HalfBytes(), hn::DemoteTo(Half(), value.v[1])),
                       hn::BitCast(HalfBytes(), hn::DemoteTo(Half(), value.v[0])));
  }

 private:
  using Half = hn::Rebind<hwy::float16_t, Floats>;
  using HalfBytes = hn::Half<Bytes>;
};
#else
using F16Lanes = SmallLanes<F16Format, uint16_t>;
#endif

using F8E4M3Lanes = SmallLanes<F8E4M3Format, uint8_t>;
using F8E5M2Lanes = SmallLanes<F8E5M2Format, uint8_t>;

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif
