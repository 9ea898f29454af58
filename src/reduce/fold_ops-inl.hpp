// Per-target: what operators share, and the division of averages.
//
// A fold operator is a specialisation of Operator with
//   static V apply(D tag, V a, V b)      one node of the fold, on vectors of integers, f32 or f64; `a` comes earlier
//   static constexpr bool kIsSum         it serves averages and scaled operands too
//   static constexpr bool kOrders        its result depends on an integer's sign
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reduce/simd_targets.hpp"
#include "tutti/types.hpp"

#if defined(TUTTI_REDUCE_FOLD_OPS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FOLD_OPS_INL_HPP_
#undef TUTTI_REDUCE_FOLD_OPS_INL_HPP_
#else
#define TUTTI_REDUCE_FOLD_OPS_INL_HPP_
#endif

#include "hwy/highway.h"
#include "reduce/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <Op>
struct Operator;

template <>
struct Operator<Op::Sum> {
  static constexpr bool kIsSum = true, kOrders = false;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

template <>
struct Operator<Op::Prod> {
  static constexpr bool kIsSum = false, kOrders = false;
  template <class D, class V>
  static HWY_INLINE V apply(D tag, V a, V b) {
    constexpr size_t kSize = sizeof(hn::TFromD<D>);
    if constexpr (kSize == 1) {  // there is no byte product: multiply even and odd bytes as half-words
      const hn::ScalableTag<uint16_t> halves;
      const auto a16 = hn::BitCast(halves, a), b16 = hn::BitCast(halves, b), low = hn::Set(halves, uint16_t{0xFF});
      const auto even = hn::And(hn::Mul(a16, b16), low);
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
      return hn::BitCast(tag, hn::Or(even, odd));
    } else if constexpr (kSize == 8 && !std::is_floating_point_v<hn::TFromD<D>>) {  // from 32-bit halves: al·bl + cross
      const hn::ScalableTag<uint32_t> halves;
      const auto a32 = hn::BitCast(halves, a), b32 = hn::BitCast(halves, b);
      const auto a_high = hn::BitCast(halves, hn::ShiftRight<32>(a)),
                 b_high = hn::BitCast(halves, hn::ShiftRight<32>(b));
      const auto cross = hn::Add(hn::MulEven(a32, b_high), hn::MulEven(a_high, b32));
      return hn::Add(hn::MulEven(a32, b32), hn::ShiftLeft<32>(cross));
    } else {
      return hn::Mul(a, b);
    }
  }
};

/// `first` where `chosen` is set or `first` is a NaN, else `second`. It uses only comparisons that are false for a NaN,
/// because Min, Max and Ne of a NaN differ between processors.
template <class M, class V>
HWY_INLINE V select_or_nan(M chosen, V first, V second) {
  return hn::IfThenElse(hn::Eq(first, first), hn::IfThenElse(chosen, first, second), first);
}

template <>
struct Operator<Op::Min> {
  static constexpr bool kIsSum = false, kOrders = true;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) return select_or_nan(hn::Lt(a, b), a, b);
    return hn::Min(a, b);
  }
};

template <>
struct Operator<Op::Max> {
  static constexpr bool kIsSum = false, kOrders = true;
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) return select_or_nan(hn::Gt(a, b), a, b);
    return hn::Max(a, b);
  }
};

/// Of operators on bits all types are words: neither member has a meaning.
struct OnBits {
  static constexpr bool kIsSum = false, kOrders = false;
};

template <>
struct Operator<Op::BitAnd> : OnBits {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

template <>
struct Operator<Op::BitOr> : OnBits {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

template <>
struct Operator<Op::BitXor> : OnBits {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

/// The operator on each vector of two groups.
template <class Lanes, class Op>
HWY_INLINE typename Lanes::Value combine(const typename Lanes::Value& a, const typename Lanes::Value& b) {
  typename Lanes::Value result;
  for (size_t i = 0; i < Lanes::kVectors; ++i) result.v[i] = Op::apply(typename Lanes::Tag(), a.v[i], b.v[i]);
  return result;
}

/// There is no vector division of integers. Below 2^53 the truncated f64 quotient is exact: its relative error is at
/// most 2^-53, and a quotient a/b that is not an integer is at least 1/b away from the next one.
template <class T>
HWY_INLINE T divide_integer(T value, uint32_t by, bool is_signed) {
  using Signed = std::make_signed_t<T>;
  if constexpr (sizeof(T) < 8) {
    const double wide = is_signed ? static_cast<double>(static_cast<Signed>(value)) : static_cast<double>(value);
    return static_cast<T>(static_cast<int64_t>(wide / by));
  } else {
    return is_signed ? static_cast<T>(static_cast<Signed>(value) / int64_t{by}) : value / by;
  }
}

/// Each lane divided by `by` ≥ 2. Integers truncate toward zero; `is_signed`: unsigned lanes hold signed integers.
template <class Lanes>
HWY_INLINE typename Lanes::Value divide(typename Lanes::Value value, uint32_t by, bool is_signed) {
  const typename Lanes::Tag tag;
  using T = hn::TFromD<typename Lanes::Tag>;
  if constexpr (std::is_floating_point_v<T>) {
    for (auto& vector : value.v) vector = hn::Div(vector, hn::Set(tag, static_cast<T>(by)));
  } else {
    HWY_ALIGN T values[kRawBytes / sizeof(T)];
    hn::Store(value.v[0], tag, values);
    for (T& element : values) element = divide_integer(element, by, is_signed);
    value.v[0] = hn::Load(tag, values);
  }
  return value;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif
