// What peers' GPUs can read of this rank's memory, and this rank's GPU of theirs: a table in the GPU's memory, by peer
// and region (link::MappedRegion).
#pragma once

#include <cstdint>
#include <memory>

#include "exec/cuda/pool.hpp"
#include "link/link.hpp"
#include "link/mapped_memory.hpp"
#include "transports/cuda/cuda.hpp"

namespace tutti::exec::cuda {

class GpuRegions final : public link::Regions {
 public:
  /// Once, when the ranks' memory is mapped. Takes the table's memory from the pool.
  void meet(const tutti::cuda::Device& device, tutti::cuda::CudaLinks& transport, Rank me, Rank ranks, Pool& pool);
  link::SharedRegion find(const void* data, uint64_t bytes) const override;
  /// The peer's entries, as kernels read them; null before meet().
  const link::MappedRegion* of(Rank peer) const {
    return table_ == nullptr ? nullptr : table_ + static_cast<uint64_t>(peer) * link::kRegions;
  }

 private:
  const link::MappedRegion* table_ = nullptr;
  bool all_on_one_gpu_ = false;  ///< in one process: peers read whatever this rank has
};

}  // namespace tutti::exec::cuda
