// Launches of kernels on users' streams. Calls of a group that follow each other on a stream can wait for one another,
// to be one launch: their kernel runs them in turn (exec/cuda/lanes.cu, tutti_batch_*).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/cuda/kernels.hpp"
#include "exec/cuda/user_streams.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {

/// Of one rank. One thread at a time.
class Launches {
 public:
  /// Loads the kernels. Throws Error(Unsupported) if the device does not run them, in blocks of so many threads.
  Launches(const tutti::cuda::Device& device, uint32_t threads);

  /// So many ranks have calls on this GPU, which must run at the same time.
  void share(uint32_t ranks, uint32_t max_blocks);
  uint32_t resident() const { return resident_; }
  uint32_t sharers() const { return sharers_; }

  /// Launches the kernel with a block for each item, as far as there can be. Nothing is held.
  void start(const LoadedKernel& kernel, uint32_t items, void* parameter, const UserStream& on);
  void start(const LoadedKernel& kernel, gpu::LanesCall& call, const UserStream& on);
  /// The same of a call that runs lanes; it may be held, to be launched with the next one.
  void hold(const LoadedKernel& kernel, const LoadedKernel& batch, const gpu::LanesCall& call, const UserStream& on);
  /// Must what is held be launched before a call on this stream is enqueued?
  bool must_start_before(const UserStream& on) const;
  bool holds() const { return !held_.empty(); }
  bool is_full() const { return held_.size() == gpu::kMaxBatch; }
  /// Launches what is held. Returns on which stream.
  UserStream start_held();

 private:
  struct Held {
    LoadedKernel kernel, batch;
    gpu::LanesCall call;
  };
  uint32_t blocks_for(uint32_t items, const UserStream& on) const;
  uint32_t threads_for(const gpu::LanesCall& call) const;
  struct Grid {
    uint32_t blocks = 1, threads = 0;
    /// Bytes of a block. Equal for all calls that run lanes: a multiprocessor with other blocks on it does not change
    /// how much of its memory is shared, and ranks that share a GPU wait for each other.
    uint32_t shared = gpu::kSharedBytes;
  };
  void launch(const LoadedKernel& kernel, const Grid& grid, void* parameter, const UserStream& on);

  const tutti::cuda::Device& device_;
  const uint32_t threads_;  // of a block
  uint32_t resident_ = 0;   // blocks that the GPU runs at the same time
  uint32_t sharers_ = 1, max_blocks_ = 1;
  std::vector<Held> held_;
  UserStream held_on_;
  const std::unique_ptr<gpu::LanesBatch> batch_ = std::make_unique<gpu::LanesBatch>();
};

}  // namespace tutti::exec::cuda
