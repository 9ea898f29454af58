// The executor: runs a schedule of forward and backward passes over this rank's units. A pipeline is another schedule
// and a Boundary that sends and receives; without one there is one stage and nothing to send.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tutti/train/data_parallel.hpp"
#include "tutti/train/unit.hpp"

namespace tutti::train {

struct Action {
  enum class What : uint8_t { Forward, Backward, BackwardInput, BackwardWeight } what = What::Forward;
  int chunk = 0;        ///< of this rank's chunks
  int micro_batch = 0;  ///< of the step
};
const char* name_of(Action::What what);
/// What one rank does in a step, in order. Backward is both of its parts, unit by unit.
using Schedule = std::vector<Action>;

/// F0 B0 F1 B1 …: one stage, so one micro-batch's activations at a time.
Schedule one_stage_schedule(int micro_batches);

/// Consecutive units [first, last) of this rank. Interleaved pipelines have several a rank.
struct Chunk {
  size_t first = 0, last = 0;
};

/// How activations and their gradients pass from chunk to chunk. The default is for a rank that has the whole model.
class Boundary {
 public:
  virtual ~Boundary() = default;
  /// The chunk's input, the output of the chunk before. Null for a model's first chunk.
  virtual Tensor receive_forward(const Action& /*action*/) { return nullptr; }
  virtual void send_forward(const Action& /*action*/, const Tensor& /*y*/) {}
  /// The gradient by the chunk's output. Null for a model's last chunk.
  virtual Tensor receive_backward(const Action& /*action*/) { return nullptr; }
  virtual void send_backward(const Action& /*action*/, const Tensor& /*dx*/) {}
  /// All sends are done.
  virtual void finish() {}
};

class Executor {
 public:
  struct Parts {
    Ledger& ledger;
    Model& units;
    std::span<UnitState> states;  ///< of the units
    DataParallel& data_parallel;
    Boundary& boundary;
  };
  /// `isolate`: each micro-batch's gradients are computed alone, then added, so the result has the same bits as a sum
  /// of single micro-batches (reproducible mode). Takes a buffer of the largest unit's gradients.
  Executor(const Parts& parts, std::vector<Chunk> chunks, bool isolate);

  /// One step's passes, between DataParallel::start_step and finish_backward, which it calls.
  void run(const Schedule& schedule, std::span<const MicroBatch> batches);

  /// Activation checkpointing (Chen et al., Training deep nets with sublinear memory cost, 2016): forward keeps of each
  /// unit only its input, and backward runs the unit's forward again. Costs one more forward pass.
  bool checkpoint_activations = false;

  /// Called after each action, with seconds of a steady clock: for timelines.
  std::function<void(const Action&, double start, double end)> observer;
  /// Not null: learns what is computed for each unit.
  std::shared_ptr<StepRecorder> recorder;

 private:
  struct InFlight;  // one chunk's work on one micro-batch
  class Recorded;
  void forward(const Action& action, const MicroBatch& batch, InFlight& flight);
  void backward(const Action& action, const MicroBatch& batch, InFlight& flight, bool input, bool weight);
  void weight_gradients(size_t unit, const Call& call, Record& record);
  size_t first_unit(const Action& action) const;
  void need(size_t unit, Pass pass, bool last_of_action);
  const float* weights_of(size_t unit, Buffer& copy);

  Parts parts_;
  std::vector<Chunk> chunks_;
  bool isolate_;
  std::vector<int> micro_batches_left_;  // [unit], of this step
  std::optional<size_t> unit_after_;     // the first that the next action needs
};

}  // namespace tutti::train
