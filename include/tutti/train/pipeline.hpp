// A pipeline over the ranks of the mesh's pp axis: how the model is cut into stages, and what passes between them.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "tutti/train/collectives.hpp"
#include "tutti/train/schedule.hpp"

namespace tutti::train {

struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 1;  ///< of each rank: v of an interleaved schedule
};

/// Cuts a row of units into `stages` runs, none empty, so that the greatest sum of costs is as small as can be. Throws
/// Error(InvalidArgument) if there are fewer units than stages.
std::vector<Chunk> balanced_stages(std::span<const double> costs, int stages);

/// Sends to and receives from the ranks before and after, while both compute. Every pair of neighbours has a
/// communicator for each direction, with a stream of its own on each end: so a message waits for nothing but the ones
/// before it between the same ranks, and no schedule that `fault_of` passes can deadlock. Receives are posted one
/// message early, each with a buffer of its own (of the ledger's activations); a sent tensor lives until it has gone.
class PipelineBoundary final : public Boundary {
 public:
  /// Collective over `pp`, which has `shape.ranks` ranks.
  PipelineBoundary(Collectives& pp, const PipelineShape& shape, Ledger& ledger, Counters& counters);
  /// In a step that did not finish, because of an error: aborts the pipeline's communicators, so that no rank waits.
  ~PipelineBoundary() override;
  PipelineBoundary(const PipelineBoundary&) = delete;
  PipelineBoundary& operator=(const PipelineBoundary&) = delete;

  /// Before Executor::run: posts the first receives. `units` and `chunks` are this rank's.
  void start_step(const Schedule& schedule, const Model& units, std::span<const Chunk> chunks,
                  std::span<const MicroBatch> batches);

  Tensor receive_forward(const Action& action) override;
  void send_forward(const Action& action, const Tensor& y) override;
  Tensor receive_backward(const Action& action) override;
  void send_backward(const Action& action, const Tensor& dx) override;
  void finish() override;

  /// Bytes that this rank has sent to its neighbours: see Collectives.
  uint64_t sent() const;
  double sent_by_formula() const;
  /// When the last receive of this step ended, and so the computation that waited for it began.
  double last_wait_ended() const { return last_wait_ended_; }

 private:
  struct Message {
    Tensor tensor;
    Event arrived;  // or has gone
  };
  /// One direction between this rank and a neighbour.
  struct Channel {
    Collectives comm;
    Stream stream;
    std::vector<std::pair<Action, size_t>> order;  // receives of this step: the action that needs it, elements
    size_t posted = 0;
    std::deque<Message> messages;  // posted and not yet taken, or not yet gone
  };
  enum Direction : uint8_t { ForwardIn, ForwardOut, BackwardIn, BackwardOut };

  void connect(Collectives& pp, Counters& counters);
  bool has_before(const Action& action) const { return shape_.stage(rank_, action.chunk) > 0; }
  bool has_after(const Action& action) const { return shape_.stage(rank_, action.chunk) + 1 < shape_.stages(); }
  void post(Direction direction);
  Tensor receive(Direction direction);
  void send(Direction direction, const Action& action, const Tensor& tensor);

  PipelineShape shape_;
  Ledger& ledger_;
  int rank_;
  std::vector<Channel> channels_;  // [Direction]
  double last_wait_ended_ = 0;
  bool running_ = false;  // from start_step to finish
};

}  // namespace tutti::train
