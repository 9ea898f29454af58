// What calls of the C++ API move: element types, and the ranges that hold them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

#include "tutti/types.hpp"

namespace tutti {

// ---- floats of 16 and 8 bits: storage
//
// Their bits and nothing else, for data whose arithmetic is somebody else's. Equal means: the same bits.

/// IEEE 754 binary16: 1 sign bit, 5 of exponent, 10 of mantissa. 1.0 is 0x3C00.
struct Half {
  uint16_t bits;
  friend bool operator==(const Half&, const Half&) = default;
};
/// bfloat16, the upper half of an IEEE 754 binary32: 1 sign bit, 8 of exponent, 7 of mantissa. 1.0 is 0x3F80.
struct BFloat16 {
  uint16_t bits;
  friend bool operator==(const BFloat16&, const BFloat16&) = default;
};
/// OCP 8-bit float E4M3: 1 sign bit, 4 of exponent, 3 of mantissa; no infinities, ±448 is the largest. 1.0 is 0x38.
struct Float8E4M3 {
  uint8_t bits;
  friend bool operator==(const Float8E4M3&, const Float8E4M3&) = default;
};
/// OCP 8-bit float E5M2: 1 sign bit, 5 of exponent, 2 of mantissa; ±57344 is the largest finite one. 1.0 is 0x3C.
struct Float8E5M2 {
  uint8_t bits;
  friend bool operator==(const Float8E5M2&, const Float8E5M2&) = default;
};

// ---- element types

/// The element type of a C++ type, `ElementType<T>::kType`. A type of your own becomes one by
///
///     template <>
///     struct tutti::ElementType<MyBFloat16> : tutti::ElementIs<tutti::DType::BF16> {};
///
/// if it can be copied byte by byte, has the same size and bits of the same meaning.
/// `char` is none: whether it has a sign differs between machines. For text: `std::as_bytes(std::span(text))`.
template <class T>
struct ElementType;

template <DType Type>
struct ElementIs {
  static constexpr DType kType = Type;
};

/// C++'s integer types, however they are spelt: `long` and `long long` are both i64 where both have 8 bytes.
template <class T>
concept PlainInteger = std::same_as<T, signed char> || std::same_as<T, unsigned char> || std::same_as<T, int> ||
    std::same_as<T, unsigned> || std::same_as<T, long> || std::same_as<T, unsigned long> ||
    std::same_as<T, long long> || std::same_as<T, unsigned long long>;

template <PlainInteger T>
struct ElementType<T> {
  static constexpr DType kType = sizeof(T) == 1   ? (std::is_signed_v<T> ? DType::I8 : DType::U8)
                                 : sizeof(T) == 4 ? (std::is_signed_v<T> ? DType::I32 : DType::U32)
                                                  : (std::is_signed_v<T> ? DType::I64 : DType::U64);
};
template <>
struct ElementType<std::byte> : ElementIs<DType::U8> {};
template <>
struct ElementType<float> : ElementIs<DType::F32> {};
template <>
struct ElementType<double> : ElementIs<DType::F64> {};
template <>
struct ElementType<Half> : ElementIs<DType::F16> {};
template <>
struct ElementType<BFloat16> : ElementIs<DType::BF16> {};
template <>
struct ElementType<Float8E4M3> : ElementIs<DType::F8E4M3> {};
template <>
struct ElementType<Float8E5M2> : ElementIs<DType::F8E5M2> {};

// The compiler's own 16-bit floats. Where <stdfloat> has std::float16_t and std::bfloat16_t they are the same types.
// Before 13, only GCC for x86 knows _Float16 in C++, whatever the macro says.
#if defined(__STDCPP_FLOAT16_T__)
#define TUTTI_NATIVE_FLOAT16 decltype(0.0f16)
#elif defined(__FLT16_MANT_DIG__) && (defined(__clang__) || __GNUC__ >= 13 || (__GNUC__ == 12 && defined(__x86_64__)))
#define TUTTI_NATIVE_FLOAT16 _Float16
#endif
#if defined(__STDCPP_BFLOAT16_T__)
#define TUTTI_NATIVE_BFLOAT16 decltype(0.0bf16)
#elif defined(__BFLT16_MANT_DIG__)
#define TUTTI_NATIVE_BFLOAT16 __bf16
#endif
#ifdef TUTTI_NATIVE_FLOAT16
template <>
struct ElementType<TUTTI_NATIVE_FLOAT16> : ElementIs<DType::F16> {};
#endif
#ifdef TUTTI_NATIVE_BFLOAT16
template <>
struct ElementType<TUTTI_NATIVE_BFLOAT16> : ElementIs<DType::BF16> {};
#endif

/// A type whose values calls can move and fold: see ElementType.
template <class T>
concept Element = std::is_trivially_copyable_v<T> && requires {
  requires sizeof(T) == size_of(ElementType<std::remove_const_t<T>>::kType);
};

// ---- ranges

/// Elements one after the other that a call can read: std::vector, std::array, std::span, tutti::Memory, a C array, …
/// Its size is the call's count. A container that is a temporary is refused: in a group or on a stream it would be gone
/// before the call runs.
template <class R>
concept InputRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::ranges::range_value_t<R>> && std::ranges::borrowed_range<R> && requires(R& range) {
  { std::ranges::data(range) } -> std::convertible_to<const void*>;
};

/// As InputRange, and a call can write it: not const.
template <class R>
concept OutputRange = InputRange<R> && requires(R& range) {
  { std::ranges::data(range) } -> std::convertible_to<void*>;
};

/// The element type of a range.
template <InputRange R>
inline constexpr DType kElementOf = ElementType<std::ranges::range_value_t<R>>::kType;

/// An input and an output of one element type.
template <class In, class Out>
concept SameElements =
    InputRange<In> && OutputRange<Out> && std::same_as<ElementIs<kElementOf<In>>, ElementIs<kElementOf<Out>>>;

}  // namespace tutti
