// A pipeline without math: units that hold memory and, if asked, time. For tests, and for the measurement of bubbles.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tutti/train/timeline.hpp"

namespace tutti::train {

inline constexpr size_t kHeldBytes = 1 << 18;     ///< of a record, from forward to the end of its backward passes
inline constexpr size_t kBoundaryBytes = 64 * 4;  ///< of what passes between units

/// The model's unit `index` of `units`.
class HoldingUnit final : public Unit {
 public:
  HoldingUnit(size_t index, size_t units, const int& fail_at) : Unit("holding"), fail_at_(fail_at) {
    layout_.add("weight." + std::to_string(index), {1}, Initial::one());
    in_ = index == 0 ? 0 : kBoundaryBytes / 4;
    out_ = index + 1 == units ? 0 : kBoundaryBytes / 4;
  }
  size_t input_count(size_t /*tokens*/) const override { return in_; }
  size_t output_count(size_t /*tokens*/) const override { return out_; }

  Tensor forward(const Call& call, const Tensor& /*x*/, std::unique_ptr<Record>& record) override {
    if (++forwards_ == fail_at_) throw std::runtime_error("this unit was told to fail");
    auto kept = std::make_unique<Kept>();
    kept->held = call.ledger.allocate(Kind::Activations, kHeldBytes / 4);
    record = std::move(kept);
    return filled(call, out_);
  }
  Tensor backward_input(const Call& call, Record& /*record*/, const Tensor& /*dy*/) override {
    return filled(call, in_);
  }
  void backward_weight(const Call& /*call*/, Record& /*record*/, float* gradients) override { gradients[0] += 1; }

 private:
  struct Kept : Record {
    Buffer held;
  };
  static Tensor filled(const Call& call, size_t count) {
    if (count == 0) return nullptr;
    Tensor tensor = call.make(count);
    call.device().zero(tensor->f32(), tensor->bytes());
    return tensor;
  }
  size_t in_ = 0, out_ = 0;
  const int& fail_at_;
  int forwards_ = 0;
};

/// One rank of it: a unit a stage.
class HoldingPipeline {
 public:
  /// `pace`: seconds of each F, B and W.
  HoldingPipeline(Communicator& comm, ScheduleKind kind, const PipelineShape& pipeline_shape, double pace)
      : ledger(*device_),
        kind_(kind),
        shape_(pipeline_shape),
        schedule_(make_schedule(kind, shape_, comm.rank())),
        pp_(comm.split(0, comm.rank()), counters) {
    for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
      std::unique_ptr<Unit> unit = std::make_unique<HoldingUnit>(static_cast<size_t>(shape_.stage(comm.rank(), chunk)),
                                                                 static_cast<size_t>(shape_.stages()), fail_at);
      chunks_.push_back({units_.size(), units_.size() + 1});
      units_.push_back(pace > 0 ? make_paced(std::move(unit), pace) : std::move(unit));
    }
    for (const auto& unit : units_) states_.push_back({.layout = &unit->layout()});
    data_parallel_ = make_data_parallel({}, ledger, {alone_, alone_, 0});
    data_parallel_->attach(states_);
    boundary_ = std::make_unique<PipelineBoundary>(pp_, shape_, ledger, counters);
    executor = std::make_unique<Executor>(Executor::Parts{ledger, units_, states_, *data_parallel_, *boundary_},
                                          chunks_, false);
  }

  Timeline step() {
    const std::vector<MicroBatch> batches(static_cast<size_t>(shape_.micro_batches));
    TimelineRecorder recorder(*executor, boundary_.get(), counters, algorithms_);
    data_parallel_->start_step();
    pp_.sum(Purpose::Setup, 0);  // all ranks begin together
    boundary_->start_step(schedule_, units_, chunks_, batches);
    executor->run(schedule_, batches);
    RankTimeline mine;
    mine.label = "stage " + std::to_string(pp_.rank());
    for (const auto& unit : units_) mine.units.push_back(unit->name());
    return recorder.gather(pp_, kind_, shape_, std::move(mine));
  }

  int fail_at = 0;  ///< the forward pass, from 1, of each unit that throws

 private:
  std::unique_ptr<Device> device_ = make_host_device();

 public:
  Counters counters;
  Ledger ledger;
  std::unique_ptr<Executor> executor;

 private:
  ScheduleKind kind_;
  PipelineShape shape_;
  Schedule schedule_;
  CallAlgorithms algorithms_;
  Collectives pp_, alone_;
  Model units_;
  std::vector<Chunk> chunks_;
  std::vector<UnitState> states_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<PipelineBoundary> boundary_;
};

}  // namespace tutti::train
