// A small fold by the switch when a communicator is made, before the selector may rely on it: drivers and fabrics
// may make multicast memory with which nothing can be folded.
#pragma once

#include <cstdint>
#include <memory>

#include "base/deadline.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/cuda/multimem_call.hpp"
#include "exec/cuda/pinned_record.hpp"
#include "exec/cuda/pool.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class MultimemTrial {
 public:
  /// Makes all that run() needs; `call`: the memory, the signals and the ranks.
  MultimemTrial(const gpu::Gpu& gpu, const tutti::cuda::Device& device, std::shared_ptr<Pool> pool, MultimemCall call);
  ~MultimemTrial();
  MultimemTrial(const MultimemTrial&) = delete;
  MultimemTrial& operator=(const MultimemTrial&) = delete;

  /// On all ranks, after all have made theirs. Throws Error(Unsupported) if the fold is wrong or does not end by then,
  /// and what the driver's calls throw.
  void run(Deadline deadline);

 private:
  bool runs() const;
  /// Returns false if the kernel had to be ended.
  bool wait(Deadline deadline);

  const tutti::cuda::Device& device_;
  const std::shared_ptr<Pool> pool_;
  const PinnedRecord record_;
  const Pool::Block memory_;  // counters, input, output
  MultimemCall call_;
  LoadedKernel kernel_;
  CUstream stream_ = nullptr;
  bool runs_on_ = false;  // the kernel, though it was told to end
};

}  // namespace tutti::exec::cuda
