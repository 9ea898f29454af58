// Records what a rank does in a step: what it computes, for what it waits, and its calls on communicators.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "tutti/train/collectives.hpp"

namespace tutti::train {

/// What a rank computes for a unit, or (the optimizer) for all of them.
enum class Work : uint8_t { Forward, Recompute, Backward, BackwardInput, BackwardWeight, Optimizer };
/// "forward", …
const char* name_of(Work work);

/// Seconds of a steady clock, here as below.
struct WorkSpan {
  Work work = Work::Forward;
  int unit = -1, micro_batch = -1;  ///< −1: of none
  double start = 0, end = 0;
};

/// The rank computes nothing, since communication has not ended.
struct WaitSpan {
  Purpose purpose = Purpose::Setup;
  double start = 0, end = 0;
};

/// A call, from when it may run until it has ended on this rank.
struct CallSpan {
  std::string collective;    ///< "all_reduce", "send", …
  std::string communicator;  ///< Collectives::name()
  int ranks = 0;
  Purpose purpose = Purpose::Setup;
  size_t bytes = 0;       ///< of the whole buffer that it divides among ranks, or of the message
  std::string algorithm;  ///< "" if it is not known
  Cargo cargo;
  double start = 0, end = 0;
};

/// By communicator, collective and bytes.
using CallAlgorithms = std::map<std::tuple<std::string, std::string, size_t>, std::string>;

/// One rank's, of one step. Counters and executors that have one tell it what they do. The thread that trains calls;
/// the streams' threads set the times of calls on streams.
class StepRecorder : public std::enable_shared_from_this<StepRecorder> {
 public:
  /// If `learns`, it asks after each kind of call by which algorithm that ran. An answer waits for the call: so a step
  /// in which it learns has no overlap to look at, and the next one is recorded. `algorithms` must outlast the step.
  StepRecorder(CallAlgorithms& algorithms, bool learns) : algorithms_(algorithms), learns_(learns) {}

  std::deque<WorkSpan> work;
  std::deque<WaitSpan> waits;
  std::deque<CallSpan> calls;  ///< complete after wait_for_calls()
  Cargo current;               ///< what the executor works on: calls that say nothing else are for that
  Cargo next;                  ///< what the next call carries, if it has a value

  /// A call begins: now, or when the stream comes to it. Its end is told by end().
  CallSpan& begin(CallSpan call, tuttiStream_t stream);
  void end(CallSpan& call, tuttiStream_t stream, Communicator& comm);
  /// Until the calls on streams have ended, too.
  void wait_for_calls() const;

 private:
  /// Sets `*time` to the time at which the stream comes here.
  void note_on(tuttiStream_t stream, double* time);
  CallAlgorithms& algorithms_;
  bool learns_;
  std::atomic<int> noted_later_ = 0;  // times that streams have still to set
};

}  // namespace tutti::train
