// Folding: combining the same element of several buffers into one, in one pass over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reduce/copy_small.hpp"
#include "reduce/fold_shape.hpp"
#include "topo/constants.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// One pass over k sources: dst[i] (and dst2[i]) = fold over j of source_j[i], in the order of `shape`.
///
/// Numbers:
/// - i8 … u64 wrap around. An average divides the wrapped sum and truncates toward zero.
/// - f32, f64 round at every node. f16, bf16, f8 are folded in f32 and rounded once, to nearest even (see
/// `round_each`).
/// - f16, bf16 overflow to infinity. f8 saturates at its largest finite value (448, 57344), as CUDA's conversions do;
///   an infinite f8e5m2 operand stays infinite, f8e4m3 has no infinity.
/// - A NaN operand makes the result NaN for every operator, min and max too. Its payload is not promised.
/// - min and max of zeros of both signs give the later operand's sign.
struct FoldCall {
  std::byte* dst;                   ///< may be one of the sources (in place), else overlaps none; null: only dst2
  std::byte* dst2;                  ///< a second copy of the result, same rules; null: none
  const std::byte* const* sources;  ///< pointers to `source_count` buffers, of any alignment
  uint32_t source_count;            ///< k ≥ 1
  uint64_t count;                   ///< elements
  FoldShape shape;
  bool stream;            ///< store dst past the cache, for large outputs; visible before the caller's later stores
  bool round_each;        ///< reproducible mode: f16, bf16, f8 round at every node, the product and the quotient too
  uint32_t divide_by;     ///< Avg: results are divided by this; 0 or 1: no. Sum kernels only
  int32_t scaled_source;  ///< PreMulSum: the source that is multiplied by *scale first; −1: none. Sum kernels only
  const void* scale;      ///< one element of the type
};

using FoldFn = void (*)(const FoldCall&);

/// The kernel for a type and an operator on this processor; never null. Sum, Avg and PreMulSum share one.
/// Kernels allocate nothing and throw nothing. They expect the default floating-point environment (FloatEnvironment).
/// Throws Error(Unsupported) on an x86 processor without SSE4.2, and for a value that is no DType or Op.
FoldFn fold_function(DType type, Op op);

/// As copy_bytes(), by this library's own loops: for two destinations and for streaming.
void copy_through_registers(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream);

/// Ways to copy to one destination, which does not overlap the source.
enum class CopyWay : uint32_t {
  Memcpy = 1,  ///< the C library's
  Movsb,       ///< the processor's own string copy; memcpy on processors without it
  Registers,   ///< this library's own loops
};

inline void copy_by(CopyWay way, std::byte* dst, const std::byte* src, size_t bytes) {
#if defined(__x86_64__)
  if (way == CopyWay::Movsb) {
    asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes)::"memory");
    return;
  }
#endif
  if (way == CopyWay::Registers) return copy_through_registers(dst, nullptr, src, bytes, false);
  std::memcpy(dst, src, bytes);
}

/// The fastest way on this machine for so many bytes.
inline CopyWay copy_way(size_t bytes) {
  if (bytes < MachineConstants::copy_middle_from) return static_cast<CopyWay>(machine_constants().copy_short);
  if (bytes < MachineConstants::copy_long_from) return static_cast<CopyWay>(machine_constants().copy_middle);
  return static_cast<CopyWay>(machine_constants().copy_long);
}

/// dst[0, bytes) = src[0, bytes), and dst2 too if it is not null. dst may equal src; otherwise nothing overlaps.
/// With `stream`, dst is stored past the cache, and is visible before later stores when the call returns.
inline void copy_bytes(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream) {
  if (bytes <= MachineConstants::small_copy) {
    if (dst != nullptr && dst != src) copy_small(dst, src, bytes);
    if (dst2 != nullptr) copy_small(dst2, src, bytes);
    return;
  }
  if (dst2 != nullptr || stream) return copy_through_registers(dst, dst2, src, bytes, stream);
  if (dst != src) copy_by(copy_way(bytes), dst, src, bytes);
}

}  // namespace tutti
