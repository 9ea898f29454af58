// Data parallelism: replicas of the model (or shards of its state) that train on different data.
//
// A strategy owns the memory of the parameters, their gradients and the optimizer, and communicates. The executor calls
// its hooks around each unit's computation. It knows spans and layouts, not models, so any framework that has its
// gradients in flat buffers can use it. One strategy a file in src/train/data_parallel/.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/adam.hpp"
#include "tutti/train/collectives.hpp"
#include "tutti/train/parameters.hpp"

namespace tutti::train {

enum class DataParallelMode : uint8_t { Ddp, ParameterServer, Zero1, Zero2, Zero3 };

struct DataParallelOptions {
  DataParallelMode mode = DataParallelMode::Ddp;
  DType weights = DType::F32;             ///< f32 or bf16, also of the gradients; bf16 keeps an f32 master
  DType communication = DType::F32;       ///< of gradients on the wire, at most as wide as `weights`: else that
  size_t first_bucket = size_t{1} << 20;  ///< bytes. Small, so that communication starts early
  size_t bucket = size_t{25} << 20;       ///< bytes of each later one
  bool reshard_after_forward = true;      ///< ZeRO-3: release weights after forward, and gather them again for backward
};

/// Why there is no such strategy; "" if there is one. `spread`: expert-parallel ranks divide the experts.
std::string objection(const DataParallelOptions& options, bool spread);

/// The ranks that take part. For models of a single process, absent communicators.
struct ReplicaGroups {
  Collectives& dense;    ///< Mesh::replicas
  Collectives& experts;  ///< Mesh::expert_replicas
  int tp_rank = 0;       ///< parameters that tensor-parallel ranks share count in the norm of rank 0 alone
  int ep_rank = 0;       ///< so do dense parameters, which expert-parallel ranks share
};

enum class Pass : uint8_t { Forward, Backward };

/// Consecutive parameters of a unit whose optimizer state this rank holds: what checkpoints save and load.
struct StatePiece {
  size_t unit = 0, first = 0;               ///< where it begins, in the unit's flat parameters
  Span master, moment1, moment2;            ///< f32, of equal length
  size_t saved_first = 0, saved_count = 0;  ///< the part that this rank saves: replicas share out the work
  size_t count() const { return master.count; }
};

/// The order of calls in a step:
///
///     start_step
///     for each micro-batch and unit, as the schedule says:
///       parameters_needed → parameters_next → forward → parameters_done                      (Pass::Forward)
///       parameters_needed → parameters_next → backward_input → gradients_needed → backward_weight → gradients_ready
///         → parameters_done                                                                  (Pass::Backward)
///     finish_backward → square_sum → step
///
/// Gradients accumulate over the micro-batches of a step; gradients_ready says when the last has been added, and only
/// then are they communicated (PyTorch's no_sync before). After finish_backward they are the average over replicas of
/// the sum over micro-batches.
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  /// Allocates for these units and sets their spans. `units` must outlast the strategy. Called once.
  virtual void attach(std::span<UnitState> units) = 0;
  /// Takes a unit's values: f32 on the host, all of layout->count(). Collective where the state is sharded.
  virtual void load(size_t unit, std::span<const float> values) = 0;
  /// The unit's current values (of the master), on the host. Collective where the state is sharded.
  virtual void read(size_t unit, std::span<float> values) = 0;
  /// After all load(): replica 0's parameters to all.
  virtual void broadcast_parameters() = 0;

  /// Between steps. Pieces of the same unit do not overlap.
  virtual std::vector<StatePiece> state() = 0;
  /// The state's values have been replaced, equally on all ranks that hold them: all weights follow. Collective.
  virtual void state_replaced() = 0;

  /// Gradients are zero, and nothing is under way.
  virtual void start_step() = 0;
  /// On return units[unit].weights holds the whole unit.
  virtual void parameters_needed(size_t /*unit*/, Pass /*pass*/) {}
  /// This unit will be needed after the one that is in use: its weights may be fetched meanwhile. Only the schedule
  /// knows which one it is: a pipeline's chunks do not follow each other.
  virtual void parameters_next(size_t /*unit*/) {}
  virtual void parameters_done(size_t /*unit*/, Pass /*pass*/) {}
  /// On return units[unit].gradients can be added to.
  virtual void gradients_needed(size_t /*unit*/) {}
  /// A micro-batch has been added; `last`: of this step.
  virtual void gradients_ready(size_t unit, bool last) = 0;
  /// On return all gradients that this rank will use are averaged. Units that were never ready count with what they
  /// hold: zeros, if no micro-batch used them on this rank.
  virtual void finish_backward() = 0;
  /// Σ g² over all parameters of this rank's units, complete over replicas: the same on all of them. Tensor-parallel,
  /// expert-parallel and pipeline ranks add theirs.
  virtual double square_sum() = 0;
  /// The optimizer; afterwards all replicas have the new parameters.
  virtual void step(const AdamStep& step) = 0;

  /// Seconds of the current step's gradient communication: how long it ran, and how long the rank waited for it. The
  /// difference was hidden behind the backward pass.
  struct Overlap {
    double busy = 0, waited = 0;
  };
  virtual Overlap overlap() const { return {}; }
};

/// Bytes that a rank holds.
struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0;
  double all() const { return weights + gradients + optimizer; }
};
/// By the formulas of data parallelism and ZeRO, for so many parameters on `replicas` ranks, of which this is an
/// optimizing one. Mixed precision (bf16 with an f32 master): 16 bytes a parameter without sharding; f32: 16 too,
/// without a master. Shards are not padded: they exceed their share by less than one element a unit.
StateBytes state_bytes(DataParallelMode mode, DType weights, double parameters, int replicas);

/// Throws Error(InvalidArgument) for options that do not fit together.
std::unique_ptr<DataParallel> make_data_parallel(const DataParallelOptions& options, Ledger& ledger,
                                                 const ReplicaGroups& groups);

/// Σ g² of `gradients`, the span of `layout`'s parameters; those that tensor- or expert-parallel ranks share count only
/// on rank 0 of them.
double square_sum(Device& device, const Layout& layout, Span gradients, int tp_rank, int ep_rank);

}  // namespace tutti::train
