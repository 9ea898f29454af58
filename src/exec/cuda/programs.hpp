// Programs in the memory of the GPU: written there once, run by many launches. Their memory is reserved when the
// backend is made.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/compile/direct.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/cuda/pool.hpp"
#include "exec/cuda/uploads.hpp"
#include "exec/execution.hpp"
#include "exec/gpu/call_count.hpp"
#include "exec/gpu/image.hpp"
#include "exec/gpu/lanes.hpp"
#include "exec/links.hpp"

namespace tutti::exec::cuda {

/// A program in the memory of the GPU.
struct Placed {
  gpu::LanesCall call;  ///< all that is equal in every launch
  LoadedKernel kernel, batch;
  std::shared_ptr<void> memory;  ///< given back when no graph needs it either
};

/// Of one rank. One thread at a time; only memory is given back by any thread.
class Programs {
 public:
  static constexpr size_t kMaxLinks = 4096;  ///< in each direction
  /// `staging`: memory that peers read, for programs that stage messages there. `runs`: may a call of the rank be
  /// running? Throws Error(OutOfMemory).
  Programs(const tutti::cuda::Device& device, const gpu::Gpu& gpu, Links& links, const gpu::CallCount& calls,
           gpu::Staging staging, std::function<bool()> runs);
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  /// Connects the program's links, and has it written before the next launch. `type`: of the kernel. Throws what
  /// connecting throws, and Error(OutOfMemory): with fewer programs there would be memory for it.
  Placed place(const Program& program, const std::string& type, const Reduction* reduction);
  /// The program of transfers of this shape (exec/gpu/transfers.hpp), known or new. `width`: its replicas, equal on all
  /// ranks; `single`: as for gpu::connect_links().
  Placed transfers(const Direct& direct, Rank rank, const PeerTraits& traits, const Reduction* reduction,
                   uint32_t width, const std::function<bool(Rank)>& single);
  /// What was placed is written now, on the stream, for the call with this number in CallCount; 0: it is captured.
  void write(CUstream stream, uint64_t counted);
  /// The call's parts, where the kernel reads them; `kept` is what a graph keeps for them. As write().
  const gpu::TransferPart* parts(const std::vector<gpu::TransferPart>& parts, CUstream stream, uint64_t counted,
                                 std::shared_ptr<void>& kept);
  const std::shared_ptr<Pool>& pool() const { return pool_; }

 private:
  /// Memory of programs that are gone, until the calls that used it have ended.
  struct Freed {
    std::mutex mutex;
    std::vector<Pool::Block> blocks;
  };
  struct Shape {
    std::string key;
    Placed placed;
  };
  Placed place(const Program& program, const std::vector<gpu::ReplicaLinks>& links, const std::string& type,
               const Reduction* reduction, bool own_tables);
  Pool::Block memory(uint64_t bytes);
  std::shared_ptr<void> owner_of(const Pool::Block& block) const;
  void reuse_memory();
  unsigned char* workspace_for(const Program& program);
  void add_links();

  const tutti::cuda::Device& device_;
  const gpu::CallCount& calls_;
  const gpu::Staging staging_;
  const std::function<bool()> runs_;
  const std::shared_ptr<Pool> pool_;
  const std::shared_ptr<Freed> freed_;
  Uploads uploads_;
  Links& links_;
  link::OutLink* out_ = nullptr;  // in the memory of the GPU
  link::InLink* in_ = nullptr;
  size_t outs_there_ = 0, ins_there_ = 0;  // of them have been added
  Pool::Block workspace_;
  std::list<Shape> shapes_;  // most recently used first
};

}  // namespace tutti::exec::cuda
