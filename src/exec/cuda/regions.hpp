// What peers' GPUs can read of this rank's memory, and this rank's GPU of theirs: a table in the GPU's memory, by peer
// and region (link::MappedRegion). A rank adds and drops buffers of its own alone (transports/cuda/shared_buffers.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "exec/cuda/pool.hpp"
#include "exec/gpu/call_count.hpp"
#include "link/link.hpp"
#include "link/mapped_memory.hpp"
#include "transports/cuda/cuda.hpp"
#include "transports/cuda/shared_buffers.hpp"

namespace tutti::exec::cuda {

/// Calls look buffers up while other threads add and drop some.
class GpuRegions final : public link::Regions {
 public:
  /// `seconds`: how long peers have to answer.
  GpuRegions(const tutti::cuda::Device& device, tutti::cuda::CudaLinks& transport, transports::Wireup& wireup,
             double seconds)
      : device_(device), transport_(transport), buffers_(wireup, device, seconds) {}

  /// Once, when the ranks' memory is mapped. Takes the table's memory from the pool. `calls`: of this rank; it must
  /// outlive this object.
  void meet(Rank me, Rank ranks, Pool& pool, const gpu::CallCount& calls);
  /// The peer's entries, as kernels read them; null before meet().
  const link::MappedRegion* of(Rank peer) const {
    return table_ == nullptr ? nullptr : table_ + static_cast<uint64_t>(peer) * link::kRegions;
  }
  /// Do peers read all that this rank has, since all are threads of one process, on one GPU?
  bool reads_all() const { return all_on_one_gpu_; }

  link::SharedRegion find(const void* data, uint64_t bytes) const override;
  /// The buffers that this rank has given its peers. Nothing is offered before meet().
  tutti::cuda::SharedBuffers& buffers() { return buffers_; }

 private:
  void enter(Rank peer, uint64_t id, const link::MappedRegion& region) const;

  const tutti::cuda::Device& device_;
  tutti::cuda::CudaLinks& transport_;
  const link::MappedRegion* table_ = nullptr;
  bool all_on_one_gpu_ = false;
  tutti::cuda::SharedBuffers buffers_;
};

}  // namespace tutti::exec::cuda
