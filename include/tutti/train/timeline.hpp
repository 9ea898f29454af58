// What all ranks did in a step, when: recorded in a real run, and measured.
#pragma once

#include <string>
#include <vector>

#include "tutti/train/pipeline.hpp"
#include "tutti/train/recorder.hpp"

namespace tutti::train {

/// A rank's part of a step. Slots begin when their input has come from the stage before, so waiting for it is no part
/// of them; other waits are.
struct RankTimeline {
  std::string label;               ///< e.g. "stage 1, dp 0"
  std::vector<std::string> units;  ///< their names: what spans call units are places in it
  std::vector<Slot> slots;         ///< the schedule's actions
  std::vector<WorkSpan> work;      ///< each unit's part of them, and the optimizer
  std::vector<WaitSpan> waits;
  std::vector<CallSpan> calls;
};

struct Timeline {
  std::string title;  ///< for people
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  PipelineShape shape;
  int stage_distance = 1;  ///< between the ranks of a stage and of the next one
  std::vector<RankTimeline> ranks;
  double clock_error = 0;  ///< seconds by which the clocks of two hosts may still differ, but for their drift

  /// From the first computation to the last.
  double seconds() const;
  /// Share of that time in which ranks compute nothing, over all ranks.
  double bubble() const;
  /// The mean time that an action of this kind took; 0 if there is none.
  double mean(Action::What what) const;
  /// The formula's bubble, for the mean times of F, B and W in this timeline.
  double formula() const;
  /// The most (chunk, micro-batch) pairs whose activations a rank held at one time.
  int in_flight(size_t rank) const;
};

/// Two moments of a collective call on one clock. No rank leaves it before all have entered it.
struct Passage {
  double entered = 0, left = 0;
};
struct ClockOffset {
  double seconds = 0;  ///< to add to the other clock's times
  double error = 0;    ///< by which it is wrong at most
};
/// What the same calls, as two ranks saw them, say of the ranks' clocks (tools/trace/clocks.hpp does so for calls of
/// all kinds): each call bounds the difference from both sides, and the offset is the middle of the closest bounds.
ClockOffset clock_offset(std::span<const Passage> reference, std::span<const Passage> other);

/// Records one step of an executor and its communication.
class TimelineRecorder {
 public:
  /// `boundary`: null if there is one stage. All must outlast the recorder. For `learns` see StepRecorder.
  TimelineRecorder(Executor& executor, PipelineBoundary* boundary, Counters& counters, CallAlgorithms& algorithms,
                   bool learns = false);
  ~TimelineRecorder();
  TimelineRecorder(const TimelineRecorder&) = delete;
  TimelineRecorder& operator=(const TimelineRecorder&) = delete;

  StepRecorder& step() { return *step_; }
  /// After the step, on all ranks of `world`: everybody's times on rank 0's clock. Collective; complete on every rank.
  /// Records no more. Of `mine` the label and the units are read.
  Timeline gather(Collectives& world, ScheduleKind schedule, const PipelineShape& shape, RankTimeline mine);

 private:
  void stop();
  Executor& executor_;
  Counters& counters_;
  std::shared_ptr<StepRecorder> step_;
  std::vector<Slot> slots_;
};

/// For chrome://tracing, Perfetto and `tutti trace` (Trace Event Format): a process for each rank, with a row for what
/// it computes and one for each purpose of each communicator.
std::string chrome_trace(const Timeline& timeline);

}  // namespace tutti::train
