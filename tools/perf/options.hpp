// The options of `tutti perf`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::tools {

/// Which rank's time is in the table. The values are nccl-tests'.
enum class TimeOf { Rank0, Average, Fastest, Slowest };

struct PerfOptions {
  static constexpr int kAllRoots = -1;

  Collective collective = Collective::AllReduce;
  std::vector<size_t> sizes;  ///< bytes, ascending
  std::vector<DType> types{DType::F32};
  std::vector<Op> ops{Op::Sum};
  int root = 0;
  int iterations = 20, warmup = 5, checks = 1;
  int aggregate = 1;     ///< calls in one group
  int threads = 1;       ///< ranks in this process
  bool blocking = true;  ///< else calls are queued on a stream, which is synchronised once
  bool device = false;   ///< buffers lie on GPUs; calls go to a stream of CUDA
  int graphs = 0;        ///< with `device`, not 0: the iterations are captured in a graph, which is replayed so often
  bool mapped = false;   ///< buffers are allocated by tuttiMemAlloc
  TimeOf time_of = TimeOf::Slowest;
  bool bound = false;  ///< the table has the machine's bound
  std::string json;    ///< file; empty: none
};

/// One row of the table: equal on all ranks.
struct PerfRow {
  DType type = DType::F32;
  Op op = Op::Sum;
  int root = 0;
  size_t count = 0;  ///< as passed to the call
  size_t bytes = 0;  ///< nccl-tests' size: of the whole buffer that the collective divides; of a message otherwise
};

/// The rows for this number of ranks.
std::vector<PerfRow> rows_of(const PerfOptions& options, int ranks);

/// Bytes of the two buffers that one rank needs for all rows; UINT64_MAX on overflow.
uint64_t memory_of_rank(const std::vector<PerfRow>& rows);
/// Throws Error(OutOfMemory) if this many ranks of one host, with these rows each, need more memory than it has.
void check_memory(const std::vector<PerfRow>& rows, uint64_t ranks, uint64_t available, const std::string& host);

/// True if its output can be in its input's memory.
bool has_in_place(Collective collective);
/// The number of blocks that its size is divided into: `ranks`, or 1.
size_t blocks_of(Collective collective, int ranks);
/// busbw/algbw, as nccl-tests' doc/PERFORMANCE.md defines them.
double bus_factor(Collective collective, int ranks);

/// "f32", any spelling of base/spelling.hpp, or "all". Throws Error(InvalidArgument) listing the names.
std::vector<DType> parse_types(const std::string& word);
/// "sum", any spelling of base/spelling.hpp, or "all".
std::vector<Op> parse_ops(const std::string& word);
/// From first to last by `step` bytes, or by `factor` if step is 0. Throws Error(InvalidArgument) if there are too
/// many.
std::vector<size_t> sweep(size_t first, size_t last, size_t step, double factor);
/// "sum", …, "mulsum".
const char* op_name(Op op);

}  // namespace tutti::tools
