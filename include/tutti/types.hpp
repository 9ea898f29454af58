// The types that users and the library share: element types, reduction operators, collectives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Element type of a buffer. The values are those of `tuttiDataType_t`.
enum class DType : uint8_t { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16, F8E4M3, F8E5M2, I16, U16 };
inline constexpr int kDTypes = 14;

/// The operators with a value of `tuttiRedOp_t`, in its order: X(name in code, name in texts, other libraries' names).
/// docs/howto/operator.md says how to add one.
#define TUTTI_OPERATORS(X)        \
  X(Sum, "sum", "add")            \
  X(Prod, "prod", "product mul")  \
  X(Min, "min", "minimum")        \
  X(Max, "max", "maximum")        \
  X(Avg, "avg", "average mean")   \
  X(BitAnd, "bitand", "band and") \
  X(BitOr, "bitor", "bor or")     \
  X(BitXor, "bitxor", "bxor xor")

/// Reduction operator. `Avg` is the sum divided by the number of ranks; `PreMulSum` first multiplies each rank's input
/// by that rank's scalar. PreMulSum has no value of its own in C: tuttiRedOpCreatePreMulSum makes one for each scalar.
#define TUTTI_OPERATOR(name, text, others) name,
enum class Op : uint8_t { TUTTI_OPERATORS(TUTTI_OPERATOR) PreMulSum };
#undef TUTTI_OPERATOR
inline constexpr int kNamedOps = static_cast<int>(Op::PreMulSum);  ///< those with a value in C
inline constexpr int kOps = kNamedOps + 1;

/// The collective operations. `Barrier` moves no data.
enum class Collective : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  Barrier,
  SendRecv
};
inline constexpr int kCollectives = 10;

/// Bytes of one element.
constexpr size_t size_of(DType type) {
  constexpr uint8_t kBytes[kDTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2};
  return kBytes[static_cast<int>(type)];
}

/// True for the types with a fraction: f16 f32 f64 bf16 f8e4m3 f8e5m2.
constexpr bool is_float(DType type) { return type >= DType::F16 && type <= DType::F8E5M2; }

/// True for i8 i16 i32 i64.
constexpr bool is_signed_integer(DType type) {
  return type == DType::I8 || type == DType::I16 || type == DType::I32 || type == DType::I64;
}

/// The name in messages and on the command line: "i8", "f32", "bf16", …
constexpr const char* name_of(DType type) {
  constexpr const char* kNames[kDTypes] = {"i8",  "u8",  "i32",  "u32",    "i64",    "u64", "f16",
                                           "f32", "f64", "bf16", "f8e4m3", "f8e5m2", "i16", "u16"};
  return static_cast<int>(type) < kDTypes ? kNames[static_cast<int>(type)] : "?";
}

/// "sum", "prod", "min", "max", "avg", "bitand", "bitor", "bitxor", "premulsum".
constexpr const char* name_of(Op op) {
#define TUTTI_OPERATOR(name, text, others) text,
  constexpr const char* kNames[kOps] = {TUTTI_OPERATORS(TUTTI_OPERATOR) "premulsum"};
#undef TUTTI_OPERATOR
  return static_cast<int>(op) < kOps ? kNames[static_cast<int>(op)] : "?";
}

/// "all_reduce", "all_gather", …
constexpr const char* name_of(Collective collective) {
  constexpr const char* kNames[kCollectives] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                "broadcast",  "reduce",     "gather",         "scatter",
                                                "barrier",    "send_recv"};
  return static_cast<int>(collective) < kCollectives ? kNames[static_cast<int>(collective)] : "?";
}

/// True if the collective folds the ranks' values.
constexpr bool reduces(Collective c) {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::Reduce;
}

/// True for operators that combine the bits of the elements, whatever their type.
constexpr bool acts_on_bits(Op op) { return op == Op::BitAnd || op == Op::BitOr || op == Op::BitXor; }

/// True if the collective has a root.
constexpr bool has_root(Collective c) {
  return c == Collective::Broadcast || c == Collective::Reduce || c == Collective::Gather || c == Collective::Scatter;
}

}  // namespace tutti
