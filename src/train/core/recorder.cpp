#include "tutti/train/recorder.hpp"

#include <utility>

#include "train/core/clock.hpp"

namespace tutti::train {

const char* name_of(Work work) {
  constexpr const char* kNames[] = {"forward",        "recompute",       "backward",
                                    "backward_input", "backward_weight", "optimizer"};
  return kNames[static_cast<size_t>(work)];
}

CallSpan& StepRecorder::begin(CallSpan call, tuttiStream_t stream) {
  call.cargo = std::exchange(next, {}).or_else(current);
  CallSpan& span = calls.emplace_back(std::move(call));
  if (stream == nullptr) {
    span.start = now();
  } else {
    note_on(stream, &span.start);
  }
  return span;
}

void StepRecorder::end(CallSpan& call, tuttiStream_t stream, Communicator& comm) {
  if (stream == nullptr) {
    call.end = now();
    waits.push_back({call.purpose, call.start, call.end});
  } else {
    note_on(stream, &call.end);
  }
  if (call.collective.starts_with("send") || call.collective == "receive") {
    call.algorithm = "direct";  // nobody may wait here for a receive, which is posted before it is needed
    return;
  }
  const std::tuple key(call.communicator, call.collective, call.bytes);
  auto known = algorithms_.find(key);
  if (known == algorithms_.end() && learns_) known = algorithms_.emplace(key, comm.last_call().algorithm).first;
  if (known != algorithms_.end()) call.algorithm = known->second;
}

void StepRecorder::note_on(tuttiStream_t stream, double* time) {
  struct Note {
    std::shared_ptr<StepRecorder> recorder;  // a step that fails leaves notes behind
    double* time;
  };
  auto note = std::make_unique<Note>(Note{shared_from_this(), time});
  const auto take = [](void* argument) {
    const std::unique_ptr<Note> taken(static_cast<Note*>(argument));
    *taken->time = now();
    if (--taken->recorder->noted_later_ == 0) taken->recorder->noted_later_.notify_all();
  };
  ++noted_later_;
  if (tuttiStreamLaunchHostFunc(stream, take, note.get()) == tuttiSuccess) {
    note.release();  // NOLINT: `take` has it
  } else {
    --noted_later_;
  }
}

void StepRecorder::wait_for_calls() const {
  for (int left = noted_later_; left != 0; left = noted_later_) noted_later_.wait(left);
}

}  // namespace tutti::train
