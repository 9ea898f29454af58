// A second implementation of the canonical order of folds, one float at a time, and inputs that reveal every deviation
// from it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/hash.hpp"
#include "reduce/convert.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tutti::test {

/// A type of elements as its bits, and how the canonical order adds two of them.
template <class B, tuttiDataType_t Type, auto Widen, auto Narrow>
struct Format {
  using Bits = B;
  static constexpr tuttiDataType_t kType = Type;
  static auto widen(Bits bits) { return Widen(bits); }
  static Bits narrow(double value) { return Narrow(static_cast<decltype(Widen(Bits{}))>(value)); }
  static Bits add(Bits a, Bits b) { return Narrow(Widen(a) + Widen(b)); }
};
using F32 = Format<uint32_t, tuttiFloat32, std::bit_cast<float, uint32_t>, std::bit_cast<uint32_t, float>>;
using F64 = Format<uint64_t, tuttiFloat64, std::bit_cast<double, uint64_t>, std::bit_cast<uint64_t, double>>;
using F16 = Format<uint16_t, tuttiFloat16, f16_to_float, float_to_f16>;
using BF16 = Format<uint16_t, tuttiBfloat16, bf16_to_float, float_to_bf16>;
using F8 = Format<uint8_t, tuttiFloat8e5m2, f8e5m2_to_float, float_to_f8e5m2>;
using F8E4M3 = Format<uint8_t, tuttiFloat8e4m3, f8e4m3_to_float, float_to_f8e4m3>;

/// Huge numbers that cancel, small ones that are lost beside them, subnormals, and rarely infinities (they hide the
/// rest).
template <class F>
typename F::Bits element(int rank, size_t i) {
  const uint64_t h = mix(i * 64 + static_cast<uint64_t>(rank) + 1);
  const double sign = (h & 1) != 0 ? -1 : 1;
  const double tiny = std::is_same_v<F, F64> ? 5e-324 : std::is_same_v<F, F16> ? 6e-8 : 1e-45;
  switch (h / 2 % 8) {
    case 0:
      return F::narrow(sign * (sizeof(typename F::Bits) < 4 ? 3000.0 : 1e30));
    case 1:
      return F::narrow(sign * tiny * static_cast<double>(h / 16 % 9));
    case 2:
      return F::narrow(h / 16 % 40 == 0 ? sign * std::numeric_limits<double>::infinity() : sign);
    default:
      return F::narrow(sign * static_cast<double>(h / 16 % 1000) / 7);
  }
}

/// The canonical order: with e = n − 2^⌊log2 n⌋ the ranks below 2e are folded in pairs; then a perfect binary tree.
template <class F>
typename F::Bits canonical(std::vector<typename F::Bits> values) {
  const size_t m = std::bit_floor(values.size()), e = values.size() - m;
  for (size_t leaf = 0; leaf < m; ++leaf) {
    values[leaf] = leaf < e ? F::add(values[2 * leaf], values[2 * leaf + 1]) : values[leaf + e];
  }
  for (size_t left = m; left > 1; left /= 2) {
    for (size_t i = 0; i < left / 2; ++i) values[i] = F::add(values[2 * i], values[2 * i + 1]);
  }
  return values[0];
}

/// The floating-point mode of a program compiled with -ffast-math.
struct FastMath {
#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  FastMath() { _mm_setcsr(saved | 0x8040); }  // subnormal results and operands become zero
  ~FastMath() { _mm_setcsr(saved); }
  /// Has the library left the mode unchanged?
  static bool unchanged() { return (_mm_getcsr() & 0x8040) == 0x8040; }
#else
  static bool unchanged() { return true; }
#endif
};

/// Empty if a sum of this type has the bits of the canonical order on this rank; else the fault.
template <class F>
std::string deviation(Collective collective, int n, int rank, tuttiComm_t comm, size_t count) {
  using Bits = typename F::Bits;
  const int root = collective == Collective::Reduce ? n / 2 : 0;
  const bool scatters = collective == Collective::ReduceScatter;
  std::vector<Bits> in(scatters ? count * static_cast<size_t>(n) : count), out(count);
  for (size_t i = 0; i < in.size(); ++i) in[i] = element<F>(rank, i);
  {
    const FastMath fast;
    const tuttiResult_t result =
        scatters ? tuttiReduceScatter(in.data(), out.data(), count, F::kType, tuttiSum, comm, nullptr)
        : collective == Collective::Reduce
            ? tuttiReduce(in.data(), out.data(), count, F::kType, tuttiSum, root, comm, nullptr)
            : tuttiAllReduce(in.data(), out.data(), count, F::kType, tuttiSum, comm, nullptr);
    if (result != tuttiSuccess) return tuttiGetLastError();
    if (!FastMath::unchanged()) return "the floating-point environment was left changed";
  }
  if (collective == Collective::Reduce && rank != root) return "";
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Bits> values;
    for (int r = 0; r < n; ++r) {
      values.push_back(element<F>(r, scatters ? static_cast<size_t>(rank) * count + i : i));
    }
    const Bits wanted = canonical<F>(values);
    const bool both_nan = std::isnan(F::widen(wanted)) && std::isnan(F::widen(out[i]));  // payloads are not promised
    wrong += wanted == out[i] || both_nan ? 0 : 1;
  }
  return wrong == 0
             ? ""
             : fmt::format("{} of {} elements of type {} have other bits", wrong, count, static_cast<int>(F::kType));
}

/// The same for every type, short and long. Collective: all ranks of `comm` call it.
inline std::string deviation_from_canonical(Collective collective, int n, int rank, tuttiComm_t comm) {
  std::string first;
  const auto note = [&first](std::string found) {
    if (first.empty()) first = std::move(found);
  };
  for (const size_t count : {size_t{1}, size_t{37}, size_t{5000}}) {
    note(deviation<F32>(collective, n, rank, comm, count));
    note(deviation<F64>(collective, n, rank, comm, count));
    note(deviation<F16>(collective, n, rank, comm, count));
    note(deviation<BF16>(collective, n, rank, comm, count));
    note(deviation<F8>(collective, n, rank, comm, count));
  }
  return first;
}

}  // namespace tutti::test
