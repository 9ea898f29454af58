// The trainer: puts mesh, model, data parallelism, executor and data together. All ranks of a world make one, with the
// same options, and call step().
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/train/checkpoint.hpp"
#include "tutti/train/data.hpp"
#include "tutti/train/executor.hpp"
#include "tutti/train/gpt.hpp"
#include "tutti/train/mesh.hpp"
#include "tutti/train/moe.hpp"
#include "tutti/train/snapshots.hpp"
#include "tutti/train/timeline.hpp"

namespace tutti::train {

struct TrainOptions {
  GptConfig model;
  MeshShape mesh;
  PipelineOptions pipeline;
  DataParallelOptions data_parallel;
  bool sequence_parallel = false;
  ContextMode context = ContextMode::Ring;  ///< of context parallelism: mesh.cp > 1
  MoeConfig moe;                            ///< experts 0: MLPs
  bool checkpoint_activations = false;      ///< see Executor
  size_t batch = 8;                         ///< sequences of a step, over all ranks and micro-batches
  size_t micro_batches = 1;                 ///< into which each rank divides its part of the batch
  uint64_t seed = 1;                        ///< of the initial parameters and the order of the data
  AdamStep adam;                            ///< rate: after the warm-up
  int64_t warmup = 10;                      ///< steps over which the rate rises linearly
  double clip = 1;                          ///< the gradients' global norm is at most that; 0: not clipped
  double pace = 0;                          ///< seconds; see make_paced: to show schedules where ranks share cores
  bool reproducible = false;                ///< see Executor; set TUTTI_REPRODUCIBLE too, for more than two ranks
  int64_t compare_every = 100;              ///< steps from one comparison of replicas' weights to the next; 0: none
};

/// Throws Error(InvalidArgument), which says what does not fit together, or not on so many ranks, and what would.
void check_options(const TrainOptions& options, int ranks);
/// All options, one a line.
std::string describe(const TrainOptions& options);

/// One step, as rank 0 would print it. The same on all ranks, but for times.
struct StepReport {
  int64_t step = 0;          ///< 1 is the first
  double loss = 0;           ///< mean over the global batch, nats a token, before the step
  double gradient_norm = 0;  ///< before clipping
  double seconds = 0;
  double waiting = 0;  ///< seconds in which this rank waited for communication
  double busy = 0;     ///< seconds in which gradient communication ran …
  double exposed = 0;  ///< … and for which the rank waited: the rest was hidden behind the backward pass
  double hidden() const { return busy > exposed ? busy - exposed : 0; }
  size_t tokens = 0;                  ///< of the global batch
  double balance = 0, imbalance = 0;  ///< with experts: load-balance loss, mean over layers; the worst layer's
                                      ///< ExpertLoad::imbalance
};

/// Bytes.
struct Traffic {
  std::string name;
  uint64_t sent = 0;
  double formula = 0;
};

class Trainer {
 public:
  /// Throws Error(InvalidArgument) if the options do not fit together or the world, Error(Mismatch) if ranks differ.
  Trainer(Communicator& world, const TrainOptions& options, Corpus corpus,
          std::unique_ptr<Device> device = make_host_device());
  ~Trainer();

  /// Throws Error(InvalidUsage) on all ranks, before the weights change, if the loss or the gradients are not finite.
  StepReport step();
  /// Checks that ranks that hold the same weights hold the same bits: collective; step() calls it now and then. Throws
  /// Error(Mismatch) on all ranks, which names two that differ. ZeRO-3 has no second copy to compare.
  void compare_replicas();
  /// Saves to a folder that all ranks see, and goes on from its newest checkpoint: see checkpoint.hpp. The model must
  /// be the same; mesh, data parallelism and types may differ. All ranks call. `job`: CheckpointOf::job.
  void save(const std::string& folder, const std::string& job = "");
  /// Returns what is not as in the run that saved it, for people: the text, the batch, the seed or the rate; "" if
  /// nothing.
  std::string resume(const std::string& folder);
  /// Throws on all ranks if one of them cannot write there.
  void try_folder(const std::string& folder) { train::try_folder(folder, mesh_.world()); }
  /// The same in the background: see BackgroundSave.
  std::unique_ptr<BackgroundSave> begin_save(const std::string& folder, const std::string& job = "");
  void end_save(BackgroundSave& save) { save.finish(mesh_.world()); }
  /// Keeps copies of the state in memory, and goes on from them, on whatever ranks: see snapshots.hpp. All ranks call;
  /// restore() is false where no step is whole.
  void snapshot(Snapshots& snapshots);
  bool restore(Snapshots& snapshots);
  int64_t steps_done() const { return done_; }
  /// step(), and what all ranks did in it. On every rank. Calls have the algorithms that rehearse_step() has learnt.
  Timeline trace_step(StepReport& report);
  /// step(), in which each kind of call is asked how it was executed: the rank waits for calls that it otherwise would
  /// not, so this is not the step to look at. All ranks call.
  StepReport rehearse_step();

  const TrainOptions& options() const { return options_; }
  Mesh& mesh() { return mesh_; }
  Ledger& ledger() { return ledger_; }
  Counters& counters() { return counters_; }
  DataParallel& data_parallel() { return *data_parallel_; }
  Executor& executor() { return *executor_; }
  const Model& units() const { return units_; }
  size_t parameters() const;  ///< of this rank's units
  /// Of one of this rank's units, where the strategy holds them whole between steps; else empty.
  Span weights(size_t unit) const { return states_[unit].weights; }
  /// Of the last step: all layers that have experts. Collective over the pipeline.
  std::vector<ExpertLoad> expert_loads();
  /// What this rank has sent over each communicator that it has: by the plans that ran, and by the formulas of
  /// Count. Waits for calls on streams.
  std::vector<Traffic> traffic();
  /// What the formulas say that this rank holds.
  StateBytes expected_state() const;

 private:
  struct Batch;  // the device memory of a micro-batch
  std::array<uint64_t, 2> hash_of_weights();
  std::string facts_of_run() const;
  void cut_into_stages();
  void make_batches();
  void load_batches();
  double mean_loss();
  AdamStep adam_of(const StepReport& report) const;
  void optimize(const AdamStep& adam);
  double gradient_norm();
  GptParts parts();
  void report_experts(StepReport& report);
  std::string title_of_step() const;
  CheckpointPart checkpoint_part();

  TrainOptions options_;
  Corpus corpus_;
  Counters counters_;
  std::unique_ptr<Device> device_;
  Ledger ledger_;
  Mesh mesh_;
  ParallelContext parallel_;
  std::optional<Stream> context_stream_;  // of ring attention
  std::vector<int32_t> positions_;        // of this rank's tokens in a sequence
  std::vector<std::unique_ptr<ExpertLoad>> expert_loads_;
  Model units_;
  std::vector<Chunk> chunks_;  // of this rank
  PipelineShape pipeline_shape_;
  Schedule schedule_;
  std::vector<UnitState> states_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Boundary> boundary_;
  PipelineBoundary* pipeline_ = nullptr;  // the boundary, if there are several stages
  std::unique_ptr<Executor> executor_;
  CallAlgorithms algorithms_;  // for traces
  std::vector<Batch> batches_;
  std::vector<MicroBatch> views_;
  int64_t done_ = 0;      // steps
  bool running_ = false;  // a step's calls: an error now is this rank's alone
};

}  // namespace tutti::train
