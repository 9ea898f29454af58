// What peers' GPUs can read of this rank's memory, and this rank's GPU of theirs: a table in the GPU's memory, by peer
// and region (link::MappedRegion). Buffers are added by all ranks together, and dropped by each alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/deadline.hpp"
#include "exec/cuda/pool.hpp"
#include "link/link.hpp"
#include "link/mapped_memory.hpp"
#include "transports/cuda/cuda.hpp"
#include "transports/cuda/registered.hpp"

namespace tutti::exec::cuda {

/// Calls look buffers up while other threads add and drop some.
class GpuRegions final : public link::Regions {
 public:
  GpuRegions(const tutti::cuda::Device& device, tutti::cuda::CudaLinks& transport)
      : device_(device), transport_(transport) {}

  /// Once, when the ranks' memory is mapped. Takes the table's memory from the pool.
  void meet(Rank me, Rank ranks, Pool& pool);
  /// The peer's entries, as kernels read them; null before meet().
  const link::MappedRegion* of(Rank peer) const {
    return table_ == nullptr ? nullptr : table_ + static_cast<uint64_t>(peer) * link::kRegions;
  }
  /// Do peers read all that this rank has, since all are threads of one process, on one GPU?
  bool reads_all() const { return all_on_one_gpu_; }

  link::SharedRegion find(const void* data, uint64_t bytes) const override;

  ~GpuRegions();
  GpuRegions(const GpuRegions&) = delete;
  GpuRegions& operator=(const GpuRegions&) = delete;

  /// A buffer of this rank that peers may map from now on; calls do not use it before use(). Throws what OwnBuffer
  /// throws.
  const tutti::cuda::BufferReport& offer(const void* data, uint64_t bytes);
  /// A peer's. Throws what mapping it throws.
  void add(Rank peer, const tutti::cuda::BufferReport& report, Deadline deadline);
  /// Some peer cannot have it.
  void withdraw(uint64_t id);
  /// All peers have it. Returns a number for drop(), never used again.
  uint64_t use(uint64_t id);
  /// Calls from now on do not use it. Nothing happens if it was dropped before.
  void drop(uint64_t number);
  /// The same with all buffers of which the user has freed some of these bytes: other memory may be there now.
  void drop_freed(const void* data, uint64_t bytes);

 private:
  struct Own {
    std::shared_ptr<tutti::cuda::OwnBuffer> buffer;
    uint64_t number = 0;  ///< 0: it is not used yet
  };
  void take_out(uint64_t id);

  const tutti::cuda::Device& device_;
  tutti::cuda::CudaLinks& transport_;
  const link::MappedRegion* table_ = nullptr;
  bool all_on_one_gpu_ = false;
  mutable std::mutex mutex_;
  std::map<uint64_t, Own> own_;  // by id
  uint64_t last_number_ = 0;
};

}  // namespace tutti::exec::cuda
