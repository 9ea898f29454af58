// What the ranks of `tutti tune --device cuda` do: calls on memory of their GPUs, with the buffers of `tutti perf`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/perf/bench.hpp"
#include "tools/tune/cells.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {

/// Measures α and β between two GPUs, for each kind of path, and writes them with the GPUs' names to the file
/// `results`. Messages have at most about `largest` bytes. All ranks call it. Throws Error(Unsupported) where calls on
/// memory of GPUs are refused.
void measure_gpu_links(Communicator& comm, const std::string& results, uint64_t largest);

/// Writes the cells of cells_of(), as rank 0's communicator sees the machine.
void list_candidates(Communicator& comm, const std::string& results, const Sizes& sizes, double within);

/// Times calls on memory of GPUs.
class GpuBench {
 public:
  GpuBench(Communicator& comm, const std::vector<Cell>& cells);
  double measure(const Cell& cell);

 private:
  Communicator& comm_;
  std::unique_ptr<PerfOptions> options_;  // which bench_ refers to
  std::unique_ptr<RankBench> bench_;
};

}  // namespace tutti::tools
