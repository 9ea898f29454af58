// The data of the C++ API's calls: element types, and the ranges that hold them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <type_traits>

#include "tutti/types.hpp"

namespace tutti {

// ---- floats of 16 and 8 bits: storage
//
// Their bits only, for data whose arithmetic is done elsewhere. Equality compares bits.

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
/// if it can be copied byte by byte, has the same size, and its bits have the same meaning. `char` is not one: whether
/// it is signed differs between machines.
template <class T>
struct ElementType;

template <DType Type>
struct ElementIs {
  static constexpr DType kType = Type;
};

/// C++'s integer types, however they are spelt: `long` and `long long` are both i64 where both have 8 bytes.
template <class T>
concept PlainInteger = std::same_as<T, signed char> || std::same_as<T, unsigned char> || std::same_as<T, short> ||
    std::same_as<T, unsigned short> || std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, long> ||
    std::same_as<T, unsigned long> || std::same_as<T, long long> || std::same_as<T, unsigned long long>;

template <PlainInteger T>
struct ElementType<T> {
  static constexpr DType kType = sizeof(T) == 1   ? (std::is_signed_v<T> ? DType::I8 : DType::U8)
                                 : sizeof(T) == 2 ? (std::is_signed_v<T> ? DType::I16 : DType::U16)
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

// ---- arguments of calls: ranges and single values

/// A type that can be moved byte by byte: elements, and structs, enums, bool, char, … whose layout is the same on all
/// ranks. Pointers are excluded: they are invalid on other ranks.
template <class T>
concept Value = std::is_object_v<T> && std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T> && !std::is_volatile_v<T>;

/// Contiguous values: std::vector, std::array, std::span, tutti::Memory, a C array, … Its size is the call's count. A
/// temporary container is rejected: in a group or on a stream it would be gone before the call runs.
template <class R>
concept ValueRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Value<std::ranges::range_value_t<R>> && std::ranges::borrowed_range<R> && requires(R& range) {
  { std::ranges::data(range) } -> std::convertible_to<const void*>;
};

/// One variable, which counts as a range of one. Not a temporary, for the same reason.
template <class V>
concept SingleValue = std::is_lvalue_reference_v<V> && !std::ranges::range<V> && Value<std::remove_cvref_t<V>> &&
                      !std::is_volatile_v<std::remove_reference_t<V>>;

namespace detail {
template <class D>
struct ValueIn {
  using Type = std::remove_cvref_t<D>;
};
template <std::ranges::range D>
struct ValueIn<D> {
  using Type = std::ranges::range_value_t<D>;
};

template <class D>
constexpr size_t count(const D& data) {
  if constexpr (std::ranges::range<D>) {
    return static_cast<size_t>(std::ranges::size(data));
  } else {
    return 1;
  }
}
template <class D>
constexpr auto* address(D& data) {
  if constexpr (std::ranges::range<D&>) {
    return std::ranges::data(data);
  } else {
    return std::addressof(data);
  }
}
}  // namespace detail

/// The type of a range's values, or of a single one.
template <class D>
using ValueOf = typename detail::ValueIn<D>::Type;

/// Data that a call can read.
template <class D>
concept Input = ValueRange<D> || SingleValue<D>;
/// Data that a call can write: not const.
template <class D>
concept Output = Input<D> && requires(std::remove_reference_t<D>& data) {
  { detail::address(data) } -> std::convertible_to<void*>;
};
/// Data that a call can fold: made of elements.
template <class D>
concept Foldable = Input<D> && Element<ValueOf<D>>;

/// Values that are not elements are moved as bytes.
template <Input D>
inline constexpr bool kAsBytes = !Element<ValueOf<D>>;
/// The C interface's view of them: as this type …
template <Input D>
constexpr DType type_of() {
  if constexpr (kAsBytes<D>) {
    return DType::U8;
  } else {
    return ElementType<ValueOf<D>>::kType;
  }
}
/// … and this number of units per value.
template <Input D>
inline constexpr size_t kUnits = kAsBytes<D> ? sizeof(ValueOf<D>) : 1;

namespace detail {
template <class In, class Out>
constexpr bool alike() {
  if constexpr (kAsBytes<In> || kAsBytes<Out>) {
    return std::same_as<ValueOf<In>, ValueOf<Out>>;
  } else {
    return type_of<In>() == type_of<Out>();
  }
}
}  // namespace detail

/// An input and an output of one type.
template <class In, class Out>
concept SameValues = Input<In> && Output<Out> && detail::alike<In, Out>();
/// The same, for folding.
template <class In, class Out>
concept SameElements = SameValues<In, Out> && Foldable<In>;

}  // namespace tutti
