#include "tutti/train/executor.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "train/core/clock.hpp"
#include "tutti/train/recorder.hpp"

namespace tutti::train {

const char* name_of(Action::What what) {
  constexpr const char* kNames[] = {"forward", "backward", "backward_input", "backward_weight"};
  return kNames[static_cast<size_t>(what)];
}

Schedule one_stage_schedule(int micro_batches) {
  Schedule schedule;
  for (int i = 0; i < micro_batches; ++i) {
    schedule.push_back({Action::What::Forward, 0, i});
    schedule.push_back({Action::What::Backward, 0, i});
  }
  return schedule;
}

namespace {

Work work_of(Action::What what) {
  return what == Action::What::Backward        ? Work::Backward
         : what == Action::What::BackwardInput ? Work::BackwardInput
                                               : Work::BackwardWeight;
}

}  // namespace

struct Executor::InFlight {
  std::vector<std::unique_ptr<Record>> records;  // [unit of the chunk]
  std::vector<Tensor> inputs;                    // [unit of the chunk], with activation checkpointing
};

/// To the end of its scope a unit is computed.
class Executor::Recorded {
 public:
  Recorded(StepRecorder* recorder, Work work, size_t unit, int micro_batch) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    span_ = {.work = work, .unit = static_cast<int>(unit), .micro_batch = micro_batch, .start = now()};
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() {
    if (recorder_ == nullptr) return;
    span_.end = now();
    recorder_->work.push_back(span_);
  }

 private:
  StepRecorder* recorder_;
  WorkSpan span_;
};

Executor::Executor(const Parts& parts, std::vector<Chunk> chunks, bool isolate)
    : parts_(parts), chunks_(std::move(chunks)), isolate_(isolate) {}

void Executor::run(const Schedule& schedule, std::span<const MicroBatch> batches) {
  micro_batches_left_.assign(parts_.units.size(), static_cast<int>(batches.size()));
  std::map<std::pair<int, int>, InFlight> in_flight;  // by chunk and micro-batch
  for (size_t i = 0; i < schedule.size(); ++i) {
    const Action& action = schedule[i];
    unit_after_ = i + 1 < schedule.size() ? std::optional(first_unit(schedule[i + 1])) : std::nullopt;
    const double start = observer ? now() : 0;
    const MicroBatch& batch = batches[static_cast<size_t>(action.micro_batch)];
    const std::pair key(action.chunk, action.micro_batch);
    InFlight& flight = in_flight[key];
    if (recorder) recorder->current = {.chunk = action.chunk, .micro_batch = action.micro_batch};
    if (action.what == Action::What::Forward) {
      forward(action, batch, flight);
    } else {
      const bool input = action.what != Action::What::BackwardWeight;
      const bool weight = action.what != Action::What::BackwardInput;
      backward(action, batch, flight, input, weight);
      if (weight) in_flight.erase(key);
    }
    if (observer) observer(action, start, now());
  }
  if (recorder) recorder->current = {};
  parts_.boundary.finish();
  parts_.data_parallel.finish_backward();
}

size_t Executor::first_unit(const Action& action) const {
  const Chunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
  return action.what == Action::What::Forward ? chunk.first : chunk.last - 1;
}

/// Has the strategy bring a unit's weights, and begin to bring those of the unit after it in the schedule.
void Executor::need(size_t unit, Pass pass, bool last_of_action) {
  if (recorder) recorder->current.unit = static_cast<int>(unit);
  parts_.data_parallel.parameters_needed(unit, pass);
  const std::optional<size_t> next = last_of_action ? unit_after_ : pass == Pass::Forward ? unit + 1 : unit - 1;
  if (next && *next != unit) parts_.data_parallel.parameters_next(*next);
}

void Executor::forward(const Action& action, const MicroBatch& batch, InFlight& flight) {
  const Chunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
  Tensor x = parts_.boundary.receive_forward(action);
  for (size_t unit = chunk.first; unit < chunk.last; ++unit) {
    need(unit, Pass::Forward, unit + 1 == chunk.last);
    Buffer copy;
    const Call call{parts_.ledger, batch, weights_of(unit, copy)};
    if (checkpoint_activations) flight.inputs.push_back(x);
    {
      const Recorded recorded(recorder.get(), Work::Forward, unit, action.micro_batch);
      x = parts_.units[unit]->forward(call, x, flight.records.emplace_back());
    }
    if (checkpoint_activations) flight.records.back().reset();
    parts_.data_parallel.parameters_done(unit, Pass::Forward);
  }
  parts_.boundary.send_forward(action, x);
}

void Executor::backward(const Action& action, const MicroBatch& batch, InFlight& flight, bool input, bool weight) {
  const Chunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
  Tensor dy;
  if (input) dy = parts_.boundary.receive_backward(action);
  for (size_t unit = chunk.last; unit-- > chunk.first;) {
    std::unique_ptr<Record>& record = flight.records.at(unit - chunk.first);
    need(unit, Pass::Backward, unit == chunk.first);
    Buffer copy;
    const Call call{parts_.ledger, batch, weights_of(unit, copy)};
    if (record == nullptr) {
      const Recorded recorded(recorder.get(), Work::Recompute, unit, action.micro_batch);
      const Tensor kept = std::move(flight.inputs.at(unit - chunk.first));
      parts_.units[unit]->forward({.ledger = call.ledger, .batch = call.batch, .weights = call.weights, .again = true},
                                  kept, record);
    }
    {
      const Recorded recorded(recorder.get(), work_of(action.what), unit, action.micro_batch);
      if (input) dy = parts_.units[unit]->backward_input(call, *record, dy);
      if (weight) {
        weight_gradients(unit, call, *record);
        record.reset();
      }
    }
    parts_.data_parallel.parameters_done(unit, Pass::Backward);
  }
  if (input) parts_.boundary.send_backward(action, dy);
}

void Executor::weight_gradients(size_t unit, const Call& call, Record& record) {
  parts_.data_parallel.gradients_needed(unit);
  const Span gradients = parts_.states[unit].gradients;
  if (gradients.type == DType::F32 && !isolate_) {
    parts_.units[unit]->backward_weight(call, record, gradients.f32());
  } else {
    Buffer alone = parts_.ledger.allocate(Kind::Buffers, gradients.count);
    call.device().zero(alone.f32(), alone.bytes());
    parts_.units[unit]->backward_weight(call, record, alone.f32());
    call.device().add(gradients, alone.span());
  }
  parts_.data_parallel.gradients_ready(unit, --micro_batches_left_[unit] == 0);
}

const float* Executor::weights_of(size_t unit, Buffer& copy) {
  const Span weights = parts_.states[unit].weights;
  if (weights.type == DType::F32) return weights.f32();
  copy = parts_.ledger.allocate(Kind::Buffers, weights.count);
  parts_.ledger.device().convert(copy.span(), weights);
  return copy.f32();
}

}  // namespace tutti::train
