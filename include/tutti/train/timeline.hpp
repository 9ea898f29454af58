// What the ranks of a pipeline did in a step, when: recorded in a real run, measured, and drawn.
#pragma once

#include <string>
#include <vector>

#include "tutti/train/pipeline.hpp"

namespace tutti::train {

/// A rank's part of a step. Computations begin when their input has come, so waiting is no part of them.
struct RankTimeline {
  std::string label;  ///< e.g. "rank 3 (stage 1)"
  std::vector<Slot> slots;
  std::vector<Transfer> transfers;
};

struct Timeline {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  PipelineShape shape;
  std::vector<RankTimeline> ranks;

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

/// Records one step of an executor and its boundary.
class TimelineRecorder {
 public:
  /// `boundary`: null if there is one stage. Both must outlast the recorder, which sets the executor's observer.
  TimelineRecorder(Executor& executor, PipelineBoundary* boundary);
  ~TimelineRecorder();
  TimelineRecorder(const TimelineRecorder&) = delete;
  TimelineRecorder& operator=(const TimelineRecorder&) = delete;

  /// After the step, on all ranks of `world`: everybody's times on rank 0's clock. Collective; complete on every rank.
  Timeline gather(Collectives& world, ScheduleKind schedule, const PipelineShape& shape,
                  const std::string& label) const;

 private:
  Executor& executor_;
  PipelineBoundary* boundary_;
  std::vector<Slot> slots_;
};

/// The timeline as a picture: a row for each rank, computations in colours with the micro-batch's number, messages as
/// thin bars, and the bubble with its formula in the caption. Follows the reader's light or dark mode.
std::string timeline_svg(const Timeline& timeline);
/// The same for chrome://tracing and Perfetto (Trace Event Format).
std::string chrome_trace(const Timeline& timeline);

}  // namespace tutti::train
