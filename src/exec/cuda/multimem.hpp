// Programs that the switch between the GPUs runs (NVLink SHARP): every rank folds its part of each window, sends it to
// all, or both. Here it loads that part from all GPUs at once, and stores it to all at once (exec/cuda/multimem.cu).
#pragma once

#include <memory>

#include "exec/backend.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/cuda/multimem_call.hpp"
#include "exec/cuda/multimem_trial.hpp"
#include "exec/cuda/pool.hpp"
#include "transports/cuda/multicast.hpp"

namespace tutti::exec::cuda {

class MultimemExecution final : public Execution {
 public:
  using Execution::Execution;
  MultimemCall call;  ///< all that is equal in every launch
  LoadedKernel kernel;
};

class Multimem {
 public:
  /// Its memory is made by join() and bind(), as that of tutti::cuda::Multicast. What try_out() throws says why it
  /// cannot be used. Each of the three is done by all ranks before any begins the next.
  Multimem(const BackendContext& context, const tutti::cuda::Device& device, std::shared_ptr<Pool> pool);
  void join(Deadline deadline);
  void bind(const gpu::Gpu& gpu);
  void try_out();

  /// Bytes of a slot: most that an item moves in a round. Equal on all ranks.
  static uint64_t slot_bytes();
  /// `reduction`: null if the plan folds nothing. Throws Error(Unsupported) for a plan of another form.
  std::unique_ptr<MultimemExecution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                             const Reduction* reduction);
  /// What a graph keeps for its calls.
  std::shared_ptr<void> keep() const;

 private:
  MultimemCall call() const;

  const BackendContext context_;
  const tutti::cuda::Device& device_;
  const std::shared_ptr<Pool> pool_;
  std::shared_ptr<tutti::cuda::Multicast> memory_;
  uint64_t* sent_ = nullptr;              // MultimemCall::sent
  std::unique_ptr<MultimemTrial> trial_;  // null: done
};

}  // namespace tutti::exec::cuda
