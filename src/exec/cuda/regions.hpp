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
  /// `calls`: of this rank.
  GpuRegions(const tutti::cuda::Device& device, tutti::cuda::CudaLinks& transport, transports::Wireup& wireup,
             gpu::CallCount& calls)
      : device_(device), transport_(transport), calls_(calls), buffers_(wireup, device) {}

  /// Once, when the ranks' memory is mapped. Takes the table's memory from the pool.
  void meet(Rank me, Rank ranks, Pool& pool);
  /// The peer's entries, as kernels read them; null before meet().
  const link::MappedRegion* of(Rank peer) const {
    return table_ == nullptr ? nullptr : table_ + static_cast<uint64_t>(peer) * link::kRegions;
  }
  /// Do peers read all that this rank has, since all are threads of one process, on one GPU?
  bool reads_all() const { return all_on_one_gpu_; }

  link::SharedRegion find(const void* data, uint64_t bytes) const override;
  /// Regions that a planned call has found stay what they are until it has been enqueued. False if they have changed
  /// since this generation.
  bool pin(uint64_t since) const;
  /// The buffers that this rank has given its peers. Nothing is offered before meet().
  tutti::cuda::SharedBuffers& buffers() { return buffers_; }

 private:
  void set(Rank peer, uint64_t id, const link::MappedRegion& region) const;

  const tutti::cuda::Device& device_;
  tutti::cuda::CudaLinks& transport_;
  gpu::CallCount& calls_;
  const link::MappedRegion* table_ = nullptr;
  bool all_on_one_gpu_ = false;
  tutti::cuda::SharedBuffers buffers_;
};

}  // namespace tutti::exec::cuda
