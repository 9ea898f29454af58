// The types that users and the library share: element types, reduction operators, collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tutti {

/// The element types, in the order of `tuttiDataType_t`. docs/howto/type.md says how to add one. X(name in code, in
/// texts, bytes, kind, name in C after "tutti", arithmetic in kernels, NCCL's type (ncclNumTypes: none), PyTorch's,
/// other names).
#define TUTTI_TYPES(X)                                                                                              \
  X(I8, i8, 1, Signed, Int8, Plain<int8_t>, ncclInt8, Char, "int8 int8t char signedchar")                           \
  X(U8, u8, 1, Unsigned, Uint8, Plain<uint8_t>, ncclUint8, Byte, "uint8 uint8t byte unsignedchar")                  \
  X(I32, i32, 4, Signed, Int32, Plain<int32_t>, ncclInt32, Int, "int32 int32t int")                                 \
  X(U32, u32, 4, Unsigned, Uint32, Plain<uint32_t>, ncclUint32, UInt32, "uint32 uint32t uint unsigned unsignedint") \
  X(I64, i64, 8, Signed, Int64, Plain<int64_t>, ncclInt64, Long, "int64 int64t long longlong")                      \
  X(U64, u64, 8, Unsigned, Uint64, Plain<uint64_t>, ncclUint64, UInt64,                                             \
    "uint64 uint64t unsignedlong unsignedlonglong")                                                                 \
  X(F16, f16, 2, Float, Float16, F16, ncclFloat16, Half, "float16 half fp16")                                       \
  X(F32, f32, 4, Float, Float32, Plain<float>, ncclFloat32, Float, "float32 float fp32")                            \
  X(F64, f64, 8, Float, Float64, Plain<double>, ncclFloat64, Double, "float64 double fp64")                         \
  X(BF16, bf16, 2, Float, Bfloat16, Bf16, ncclBfloat16, BFloat16, "bfloat16 bfloat")                                \
  X(F8E4M3, f8e4m3, 1, Float, Float8e4m3, F8E4M3, ncclFloat8e4m3, Float8_e4m3fn,                                    \
    "float8e4m3 fp8e4m3 float8e4m3fn e4m3")                                                                         \
  X(F8E5M2, f8e5m2, 1, Float, Float8e5m2, F8E5M2, ncclFloat8e5m2, Float8_e5m2, "float8e5m2 fp8e5m2 e5m2")           \
  X(I16, i16, 2, Signed, Int16, Plain<int16_t>, ncclNumTypes, Short, "int16 int16t short shortint")                 \
  X(U16, u16, 2, Unsigned, Uint16, Plain<uint16_t>, ncclNumTypes, UInt16, "uint16 uint16t unsignedshort")

/// Element type of a buffer. The values are those of `tuttiDataType_t`.
#define TUTTI_TYPE(name, ...) name,
enum class DType : uint8_t { TUTTI_TYPES(TUTTI_TYPE) };
#undef TUTTI_TYPE
#define TUTTI_TYPE(name, ...) DType::name,
inline constexpr int kDTypes = std::initializer_list<DType>{TUTTI_TYPES(TUTTI_TYPE)}.size();
#undef TUTTI_TYPE
enum class TypeKind : uint8_t { Signed, Unsigned, Float };

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
#define TUTTI_TYPE(name, text, bytes, ...) bytes,
  constexpr uint8_t kBytes[kDTypes] = {TUTTI_TYPES(TUTTI_TYPE)};
#undef TUTTI_TYPE
  return kBytes[static_cast<int>(type)];
}

constexpr TypeKind kind_of(DType type) {
#define TUTTI_TYPE(name, text, bytes, kind, ...) TypeKind::kind,
  constexpr TypeKind kKinds[kDTypes] = {TUTTI_TYPES(TUTTI_TYPE)};
#undef TUTTI_TYPE
  return kKinds[static_cast<int>(type)];
}
/// True for the types with a fraction.
constexpr bool is_float(DType type) { return kind_of(type) == TypeKind::Float; }
/// True for those that may be negative.
constexpr bool is_signed_integer(DType type) { return kind_of(type) == TypeKind::Signed; }

/// The name in messages and on the command line: "i8", "f32", "bf16", …
constexpr const char* name_of(DType type) {
#define TUTTI_TYPE(name, text, ...) #text,
  constexpr const char* kNames[kDTypes] = {TUTTI_TYPES(TUTTI_TYPE)};
#undef TUTTI_TYPE
  return static_cast<int>(type) < kDTypes ? kNames[static_cast<int>(type)] : "?";
}

/// The name in messages and on the command line: "sum", "bitand", …, "premulsum".
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
