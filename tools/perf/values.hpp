// The values behind a pattern: a rank's contribution to an element, and the fold of all contributions. See
// tools/perf/pattern.hpp for their purpose.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tutti/types.hpp"

namespace tutti::tools {

/// Mixes its arguments into 64 evenly distributed bits.
uint64_t mix(uint64_t a, uint64_t b, uint64_t c = 0);

/// The position of a value. `place` is the element's index in the period.
struct Spot {
  uint64_t seed;
  int ranks;
  uint64_t place;
};

/// Bits of the data of `rank` in a copying collective.
uint64_t copied_value(const Spot& spot, int rank, DType type);
/// Bits of the contribution of `rank` to a fold with `op`, before its scalar is multiplied in.
uint64_t folded_value(const Spot& spot, int rank, DType type, Op op);
/// Bits of the rank's factor in a pre-multiplied sum.
uint64_t scalar_value(uint64_t seed, int rank, DType type);

/// One node of a fold, on numbers (T: double, int64_t or uint64_t). The one reference that results are checked against,
/// here and in the tests of the kernels. What acts on bits is asked with integers only.
template <class T>
T fold_numbers(T a, T b, Op op) {
  using Wraps = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const auto x = static_cast<Wraps>(a), y = static_cast<Wraps>(b);
  switch (op) {
    case Op::Sum:
    case Op::Avg:
    case Op::PreMulSum:
      return static_cast<T>(x + y);
    case Op::Prod:
      return static_cast<T>(x * y);
    case Op::Min:
      return a < b ? a : b;
    case Op::Max:
      return a > b ? a : b;
    case Op::BitAnd:
      if constexpr (std::is_integral_v<T>) return a & b;
      break;
    case Op::BitOr:
      if constexpr (std::is_integral_v<T>) return a | b;
      break;
    case Op::BitXor:
      if constexpr (std::is_integral_v<T>) return a ^ b;
      break;
  }
  return a;
}

/// True if the result is one of the operands. Any numbers then fold exactly, and a doubled one changes nothing.
constexpr bool chooses(Op op) {
  switch (op) {  // all of them, so that a new one is not forgotten
    case Op::Min:
    case Op::Max:
      return true;
    case Op::Sum:
    case Op::Prod:
    case Op::Avg:
    case Op::BitAnd:
    case Op::BitOr:
    case Op::BitXor:
    case Op::PreMulSum:
      return false;
  }
  return false;
}

/// Folds two values, rounded to the type as its arithmetic does.
uint64_t fold(uint64_t a, uint64_t b, DType type, Op op);
/// sum/ranks: rounded to the nearest for floats, towards zero for integers.
uint64_t divide(uint64_t sum, int ranks, DType type);
/// The fold of all ranks' contributions, from rank 0 up.
uint64_t fold_of_all(const Spot& spot, DType type, Op op);

}  // namespace tutti::tools
