// What the host and the kernels that fold through a switch exchange: plain data.
//
// Each rank's GPU has memory of which all other ranks' have their own, and one multicast address stands for the same
// place of all (transports/cuda/multicast.hpp). A call's rounds are dealt out to items; a block runs an item at a time.
// Of each item the memory has
//
//   signals   a word of every rank: how far its block is, and in which call
//   slots     two, for the windows of two rounds
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "exec/compile/multimem_steps.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {

inline constexpr uint32_t kMaxMultimemRanks = 32;

/// X(name, type, operator, PTX shape, PTX operation): what switches make of the GPUs' values. Sums of 16-bit floats are
/// rounded once. (Minimum and maximum of floats: switches do not keep a NaN, as all else here does.)
#define TUTTI_MULTIMEM_OPERATIONS(X)                            \
  X(add_f32, Plain<float>, Op::Sum, PACK, "add.v4.f32")         \
  X(add_f64, Plain<double>, Op::Sum, WORDS_64, "add.f64")       \
  X(add_f16, F16, Op::Sum, PACK, "add.acc::f32.v4.f16x2")       \
  X(add_bf16, Bf16, Op::Sum, PACK, "add.acc::f32.v4.bf16x2")    \
  X(add_32, Plain<uint32_t>, Op::Sum, WORDS_32, "add.u32")      \
  X(add_64, Plain<uint64_t>, Op::Sum, WORDS_64, "add.u64")      \
  X(min_i32, Plain<int32_t>, Op::Min, WORDS_32, "min.s32")      \
  X(min_u32, Plain<uint32_t>, Op::Min, WORDS_32, "min.u32")     \
  X(min_i64, Plain<int64_t>, Op::Min, WORDS_64, "min.s64")      \
  X(min_u64, Plain<uint64_t>, Op::Min, WORDS_64, "min.u64")     \
  X(max_i32, Plain<int32_t>, Op::Max, WORDS_32, "max.s32")      \
  X(max_u32, Plain<uint32_t>, Op::Max, WORDS_32, "max.u32")     \
  X(max_i64, Plain<int64_t>, Op::Max, WORDS_64, "max.s64")      \
  X(max_u64, Plain<uint64_t>, Op::Max, WORDS_64, "max.u64")     \
  X(and_bits, Plain<uint32_t>, Op::BitAnd, WORDS_32, "and.b32") \
  X(or_bits, Plain<uint32_t>, Op::BitOr, WORDS_32, "or.b32")    \
  X(xor_bits, Plain<uint32_t>, Op::BitXor, WORDS_32, "xor.b32")

/// The names of their kernels follow "tutti_multimem_".
inline constexpr const char* kMultimemOperations[] = {
#define TUTTI_MULTIMEM_NAME(name, T, kOp, shape, operation) #name,
    TUTTI_MULTIMEM_OPERATIONS(TUTTI_MULTIMEM_NAME)
#undef TUTTI_MULTIMEM_NAME
};

/// tag << 32 | how many signals the rank has sent for this item, in all calls together.
using Signal = uint64_t;
TUTTI_HD inline Signal make_signal(uint32_t tag, uint64_t count) {
  return uint64_t{tag} << 32 | static_cast<uint32_t>(count);
}
/// What a rank's signal says to one that waits for its `count`-th in the call with this tag. A rank may be ahead, even
/// in the next call: then it has seen this call's signals of the one that waits, and so has made the same call.
enum class Heard : uint32_t { NotYet, Yes, OtherCall };
TUTTI_HD inline Heard hear(Signal signal, uint32_t tag, uint64_t count) {
  const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(signal) - static_cast<uint32_t>(count));
  if (ahead != 0) return ahead > 0 ? Heard::Yes : Heard::NotYet;
  return static_cast<uint32_t>(signal >> 32) == tag ? Heard::Yes : Heard::OtherCall;
}
inline constexpr uint64_t kSignalBytes = gpu::kMaxBlocks * kMaxMultimemRanks * sizeof(Signal);

/// The parameter of these kernels.
struct MultimemCall {
  gpu::CallHead head;
  MultimemLayout layout;
  const unsigned char* in = nullptr;
  unsigned char* out = nullptr;
  unsigned char* own = nullptr;  ///< the memory of this rank
  unsigned char* all = nullptr;  ///< the multicast address of it
  uint64_t* sent = nullptr;      ///< of each item: signals that this rank has sent in earlier calls; equal on all ranks
  uint32_t unit = 1;             ///< bytes of an element
  uint32_t fold_step = 0, gather_step = 0;  ///< of the plan: which fold, and which receive, wait for others
};

}  // namespace tutti::exec::cuda
