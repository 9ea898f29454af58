// Names of collectives, types and operators in this and other libraries.
#include "base/spelling.hpp"

#include <gtest/gtest.h>

#include "tutti/error.hpp"

namespace tutti {
namespace {

TEST(Spelling, KnowsTuttisOwnNames) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto c = static_cast<Collective>(i);
    EXPECT_EQ(collective_called(name_of(c)), c) << name_of(c);
  }
  for (int i = 0; i < kDTypes; ++i) EXPECT_EQ(type_called(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  for (int i = 0; i < kOps; ++i) EXPECT_EQ(op_called(name_of(static_cast<Op>(i))), static_cast<Op>(i));
}

TEST(Spelling, KnowsOtherLibrariesNamesOfCollectives) {
  const struct {
    Collective collective;
    std::vector<const char*> words;
  } all[] = {
      {Collective::AllReduce,
       {"allreduce", "all-reduce", "all_reduce_perf", "ncclAllReduce", "tuttiAllReduce", "MPI_Allreduce", "AllReduce"}},
      {Collective::AllGather, {"allgather", "all_gather_perf", "ncclAllGather", "MPI_Allgather"}},
      {Collective::ReduceScatter,
       {"reducescatter", "reduce_scatter_perf", "ncclReduceScatter", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block"}},
      {Collective::AllToAll, {"alltoall", "alltoall_perf", "MPI_Alltoall", "ncclAlltoAll"}},
      {Collective::Broadcast, {"bcast", "broadcast_perf", "ncclBcast", "ncclBroadcast", "MPI_Bcast"}},
      {Collective::Reduce, {"reduce_perf", "ncclReduce", "MPI_Reduce"}},
      {Collective::Gather, {"gather_perf", "MPI_Gather"}},
      {Collective::Scatter, {"scatter_perf", "MPI_Scatter"}},
      {Collective::Barrier, {"MPI_Barrier"}},
      {Collective::SendRecv, {"sendrecv", "sendrecv_perf", "send_recv", "MPI_Sendrecv"}}};
  for (const auto& [collective, words] : all) {
    for (const char* word : words) EXPECT_EQ(collective_called(word), collective) << word;
  }
}

TEST(Spelling, KnowsOtherLibrariesNamesOfTypes) {
  const struct {
    DType type;
    std::vector<const char*> words;
  } all[] = {{DType::I8, {"int8", "ncclInt8", "ncclChar", "MPI_CHAR", "MPI_INT8_T"}},
             {DType::U8, {"uint8", "ncclUint8", "MPI_BYTE", "MPI_UNSIGNED_CHAR"}},
             {DType::I32, {"int32", "int", "ncclInt", "ncclInt32", "MPI_INT"}},
             {DType::U32, {"uint32", "ncclUint32", "MPI_UNSIGNED"}},
             {DType::I64, {"int64", "ncclInt64", "MPI_LONG_LONG", "MPI_INT64_T"}},
             {DType::U64, {"uint64", "ncclUint64", "MPI_UINT64_T"}},
             {DType::F16, {"half", "float16", "ncclHalf", "ncclFloat16"}},
             {DType::F32, {"float", "float32", "ncclFloat", "MPI_FLOAT", "tuttiFloat32"}},
             {DType::F64, {"double", "float64", "ncclDouble", "MPI_DOUBLE"}},
             {DType::BF16, {"bfloat16", "ncclBfloat16"}},
             {DType::F8E4M3, {"fp8_e4m3", "f8e4m3", "ncclFloat8e4m3"}},
             {DType::F8E5M2, {"fp8_e5m2", "ncclFloat8e5m2"}}};
  for (const auto& [type, words] : all) {
    for (const char* word : words) EXPECT_EQ(type_called(word), type) << word;
  }
}

TEST(Spelling, KnowsOtherLibrariesNamesOfOperators) {
  EXPECT_EQ(op_called("mulsum"), Op::PreMulSum);
  EXPECT_EQ(op_called("pre_mul_sum"), Op::PreMulSum);
  EXPECT_EQ(op_called("ncclAvg"), Op::Avg);
  EXPECT_EQ(op_called("MPI_PROD"), Op::Prod);
  EXPECT_EQ(op_called("tuttiMax"), Op::Max);
}

TEST(Spelling, DoesNotGuess) {
  for (const char* word : {"", "_", "nccl", "mpi_", "perf", "all", "al_reduce", "MPI_Allreduce_x", "float 7"}) {
    EXPECT_FALSE(collective_called(word)) << word;
    EXPECT_FALSE(type_called(word)) << word;
    EXPECT_FALSE(op_called(word)) << word;
  }
}

TEST(Spelling, SuggestsTheNearest) {
  EXPECT_EQ(nearest("alreduce", collective_names()), "all_reduce");
  EXPECT_EQ(nearest("all_recude", collective_names()), "all_reduce");
  EXPECT_EQ(nearest("broad", collective_names()), "broadcast");
  EXPECT_EQ(nearest("ncclAlGather", collective_names()), "all_gather");
  EXPECT_EQ(nearest("perv", {"run", "perf", "plan"}), "perf");
  EXPECT_EQ(nearest("xyzzy", collective_names()), std::nullopt);
  EXPECT_EQ(nearest("", collective_names()), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'a'), collective_names()), std::nullopt);
  EXPECT_EQ(did_you_mean("rign", {"ring", "swing"}), " (did you mean ring?)");
  EXPECT_EQ(did_you_mean("nothing like it", {"ring", "swing"}), "");
}

TEST(Spelling, NamesTheSourceOfAnUnknownWord) {
  try {
    read_collective("alreduce", "TUTTI_ALGO");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    EXPECT_EQ(std::string(error.what())
                  .rfind("TUTTI_ALGO: there is no collective 'alreduce' (did you mean all_reduce?); "
                         "there are all_reduce, all_gather, ",
                         0),
              0u)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti
