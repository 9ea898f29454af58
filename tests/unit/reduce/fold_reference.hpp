// A slow reference fold for the kernels: one element at a time, in a number that holds any element exactly.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "reduce/convert.hpp"
#include "reduce/fold.hpp"
#include "tools/perf/small_float.hpp"
#include "tools/perf/values.hpp"

namespace tutti::reference {

__extension__ typedef __int128 Wide;

/// One element: `real` for the types with a fraction, `whole` (wrapped to the type's range) for the others.
struct Number {
  double real = 0;
  Wide whole = 0;
};

/// Integers modulo 2^bits, in the type's range.
inline Number wrapped(DType type, Number n) {
  const int bits = 8 * static_cast<int>(size_of(type));
  const Wide modulus = static_cast<Wide>(1) << bits;
  n.whole = ((n.whole % modulus) + modulus) % modulus;
  if (is_signed_integer(type) && n.whole >= modulus / 2) n.whole -= modulus;
  return n;
}

inline Number decode(DType type, const std::byte* at) {
  uint64_t bits = 0;
  memcpy(&bits, at, size_of(type));
  Number n;
  if (is_float(type)) {
    n.real = tools::decode(bits, tools::format_of(type));
  } else {
    n.whole = bits;
    n = wrapped(type, n);
  }
  return n;
}

/// To the precision the kernels compute in: f64, or f32 for everything smaller.
inline double computed(DType type, double value) { return type == DType::F64 ? value : static_cast<float>(value); }

/// To the precision of the element.
inline double rounded(DType type, double value) {
  const float f = static_cast<float>(value);
  switch (type) {
    case DType::F16:
      return f16_to_float(float_to_f16(f));
    case DType::BF16:
      return bf16_to_float(float_to_bf16(f));
    case DType::F8E4M3:
      return f8e4m3_to_float(float_to_f8e4m3(f));
    case DType::F8E5M2:
      return f8e5m2_to_float(float_to_f8e5m2(f));
    default:
      return computed(type, value);
  }
}

/// The unsigned integer with the bits of an element of `type`, for operators that act on bits.
constexpr DType word_of(DType type) {
  constexpr DType kWords[] = {DType::U8, DType::U16, DType::U32, DType::U64};
  return kWords[std::countr_zero(size_of(type))];
}

/// The result of `call` at element i. It reaches the same order by other means: levels of adjacent pairs.
/// A sum, product or quotient of two f32 in f64, rounded to f32, is the f32 operation's result (Figueroa 1995).
class Reference {
 public:
  Reference(DType type, Op op, const FoldCall& call)
      : given_(type), type_(acts_on_bits(op) ? word_of(type) : type), op_(op), call_(call) {}

  Number operator()(uint64_t i) const {
    std::vector<Number> level;
    for (uint32_t j = 0; j < call_.source_count; ++j) {
      Number n = decode(type_, call_.sources[j] + i * size_of(type_));
      if (static_cast<int64_t>(j) == call_.scaled_source) {
        n = node(Op::Prod, n, decode(type_, static_cast<const std::byte*>(call_.scale)));
      }
      level.push_back(n);
    }
    Number n = call_.shape == FoldShape::Left ? left(level) : tree(level);
    if (call_.divide_by > 1) n = divided(n);
    n.real = is_float(type_) ? rounded(type_, n.real) : 0;
    if (given_ == type_) return n;
    const auto word = static_cast<uint64_t>(n.whole);
    return decode(given_, reinterpret_cast<const std::byte*>(&word));
  }

 private:
  Number node(Op op, Number a, Number b) const {
    Number n{.real = tools::fold_numbers(a.real, b.real, op)};
    if (std::isnan(a.real) || std::isnan(b.real)) n.real = NAN;
    n.real = call_.round_each ? rounded(type_, computed(type_, n.real)) : computed(type_, n.real);
    n.whole = is_signed_integer(type_) ? Wide{folded<int64_t>(a, b, op)} : Wide{folded<uint64_t>(a, b, op)};
    return wrapped(type_, n);
  }

  template <class T>
  static T folded(Number a, Number b, Op op) {
    return tools::fold_numbers(static_cast<T>(a.whole), static_cast<T>(b.whole), op);
  }

  Number left(const std::vector<Number>& operands) const {
    Number n = operands[0];
    for (size_t j = 1; j < operands.size(); ++j) n = node(op_, n, operands[j]);
    return n;
  }

  Number tree(std::vector<Number> level) const {
    size_t power = 1;
    while (power * 2 <= level.size()) power *= 2;
    const size_t extra = level.size() - power;
    for (size_t pair = 0; pair < extra; ++pair) {
      level[pair] = node(op_, level[pair], level[pair + 1]);
      level.erase(level.begin() + static_cast<std::ptrdiff_t>(pair) + 1);
    }
    while (level.size() > 1) {
      std::vector<Number> above;
      for (size_t j = 0; j < level.size(); j += 2) above.push_back(node(op_, level[j], level[j + 1]));
      level = above;
    }
    return level[0];
  }

  Number divided(Number n) const {
    n.real = computed(type_, (call_.round_each ? rounded(type_, n.real) : n.real) / call_.divide_by);
    n.whole /= static_cast<int64_t>(call_.divide_by);
    return n;
  }

  DType given_, type_;  // the second is what the fold computes with
  Op op_;
  const FoldCall& call_;
};

}  // namespace tutti::reference
