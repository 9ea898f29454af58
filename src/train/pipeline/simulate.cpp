// Schedules as they would run, and the proof that they do: every rank's program counter moves on as far as messages let
// it, until all are at the end or none can move.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tutti/train/schedule.hpp"

namespace tutti::train {
namespace {

using What = Action::What;
using Place = std::tuple<int, int>;  // stage (or chunk), micro-batch

bool is_forward(const Action& action) { return action.what == What::Forward; }
/// Does it make the gradient by the input, which passes on to the stage before?
bool passes_back(const Action& action) { return action.what == What::Backward || action.what == What::BackwardInput; }
bool ends(const Action& action) { return action.what == What::Backward || action.what == What::BackwardWeight; }

std::string described(const Action& action) {
  return fmt::format("{} of micro-batch {} in chunk {}", name_of(action.what), action.micro_batch, action.chunk);
}

/// How far one micro-batch has come in one chunk.
enum class Progress : uint8_t { None, Forward, Input, Done };

/// Faults of one rank's schedule alone.
std::string fault_of_rank(const Schedule& schedule, const PipelineShape& shape, int rank) {
  std::map<Place, Progress> progress;
  for (const Action& action : schedule) {
    if (action.chunk < 0 || action.chunk >= shape.chunks || action.micro_batch < 0 ||
        action.micro_batch >= shape.micro_batches) {
      return fmt::format("rank {} has the {}, which does not exist", rank, described(action));
    }
    Progress& at = progress[{action.chunk, action.micro_batch}];
    const Progress needed = is_forward(action)    ? Progress::None
                            : passes_back(action) ? Progress::Forward
                                                  : Progress::Input;
    if (at != needed) return fmt::format("rank {} has the {} twice, or before what it needs", rank, described(action));
    at = ends(action) ? Progress::Done : is_forward(action) ? Progress::Forward : Progress::Input;
  }
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int i = 0; i < shape.micro_batches; ++i) {
      if (progress[{chunk, i}] != Progress::Done) {
        return fmt::format("rank {} does not finish micro-batch {} in chunk {}", rank, i, chunk);
      }
    }
  }
  return "";
}

/// The messages that one rank sends to the next one (or the one before), or receives from it, as the stage that makes
/// them, in order. Between two ranks and in one direction messages have no names: the order is all that matches them.
std::vector<Place> messages(const Schedule& schedule, const PipelineShape& shape, int rank, bool forward, bool sends) {
  std::vector<Place> order;
  const int last = shape.stages() - 1;
  for (const Action& action : schedule) {
    if (forward ? !is_forward(action) : !passes_back(action)) continue;
    const int stage = shape.stage(rank, action.chunk);
    const int from = sends ? stage : forward ? stage - 1 : stage + 1;
    const bool exists = forward ? from >= 0 && from < last : from > 0 && from <= last;
    if (exists) order.emplace_back(from, action.micro_batch);
  }
  return order;
}

std::string fault_of_messages(const std::vector<Schedule>& schedules, const PipelineShape& shape) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int next = (rank + 1) % shape.ranks;
    for (const bool forward : {true, false}) {
      const int from = forward ? rank : next, to = forward ? next : rank;
      const auto sent = messages(schedules[static_cast<size_t>(from)], shape, from, forward, true);
      const auto received = messages(schedules[static_cast<size_t>(to)], shape, to, forward, false);
      if (sent == received) continue;
      return fmt::format("rank {} sends {} to rank {} in another order, or number, than that one receives them", from,
                         forward ? "activations" : "gradients", to);
    }
  }
  return "";
}

/// Runs all ranks. Messages wait at their receiver for as long as needed; a sender never waits.
class Run {
 public:
  Run(const std::vector<Schedule>& schedules, const PipelineShape& shape, const StageCosts& costs)
      : schedules_(schedules), shape_(shape), costs_(costs), next_(schedules.size(), 0), free_(schedules.size(), 0) {
    result.slots.resize(schedules.size());
  }

  /// Empty if all schedules ran to their end; otherwise which rank waits for which action.
  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank) {
        while (next_[rank] < schedules_[rank].size() && step(rank)) moved = true;
      }
    }
    std::string stuck;
    for (size_t rank = 0; rank < schedules_.size(); ++rank) {
      if (next_[rank] == schedules_[rank].size()) continue;
      stuck += fmt::format("{}rank {} waits to run the {}", stuck.empty() ? "deadlock: " : ", ", rank,
                           described(schedules_[rank][next_[rank]]));
    }
    return stuck;
  }

  Simulation result;

 private:
  bool step(size_t rank) {
    const Action& action = schedules_[rank][next_[rank]];
    const int at = static_cast<int>(rank), stage = shape_.stage(at, action.chunk);
    double start = free_[rank];
    if (action.what != What::BackwardWeight) {
      const bool forward = is_forward(action);
      const int from = forward ? stage - 1 : stage + 1;
      if (from >= 0 && from < shape_.stages()) {
        auto& made = forward ? forwards_ : backwards_;
        const auto message = made.find({from, action.micro_batch});
        if (message == made.end()) return false;
        const bool elsewhere = shape_.ranks > 1;
        start = std::max(start, message->second + (elsewhere ? costs_.transfer : 0));
      }
    }
    const double end = start + costs_.of(action.what);
    if (is_forward(action)) forwards_[{stage, action.micro_batch}] = end;
    if (passes_back(action)) backwards_[{stage, action.micro_batch}] = end;
    result.slots[rank].push_back({action, start, end});
    free_[rank] = end;
    ++next_[rank];
    return true;
  }

  const std::vector<Schedule>& schedules_;
  PipelineShape shape_;
  StageCosts costs_;
  std::vector<size_t> next_;                      // [rank]: of its schedule
  std::vector<double> free_;                      // [rank]: when its last action ends
  std::map<Place, double> forwards_, backwards_;  // when a stage has made the message
};

int max_in_flight(const Schedule& schedule) {
  int now = 0, most = 0;
  for (const Action& action : schedule) {
    now += static_cast<int>(is_forward(action)) - static_cast<int>(ends(action));
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

double StageCosts::of(What what) const {
  if (what == What::Forward) return forward;
  if (what == What::BackwardInput) return backward_input;
  if (what == What::BackwardWeight) return backward_weight;
  return backward_input + backward_weight;
}

std::string fault_of(const std::vector<Schedule>& schedules, const PipelineShape& shape) {
  if (schedules.size() != static_cast<size_t>(shape.ranks)) {
    return fmt::format("there are {} schedules for {} ranks", schedules.size(), shape.ranks);
  }
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    std::string fault = fault_of_rank(schedules[rank], shape, static_cast<int>(rank));
    if (!fault.empty()) return fault;
  }
  std::string fault = fault_of_messages(schedules, shape);
  return fault.empty() ? Run(schedules, shape, {}).run() : fault;
}

Simulation simulate(const std::vector<Schedule>& schedules, const PipelineShape& shape, const StageCosts& costs) {
  const std::string fault = fault_of(schedules, shape);
  if (!fault.empty()) throw Error(Code::InvalidArgument, fault);
  Run run(schedules, shape, costs);
  run.run();
  Simulation& result = run.result;
  double busy = 0;
  for (const auto& slots : result.slots) {
    for (const Slot& slot : slots) {
      busy += slot.end - slot.start;
      result.seconds = std::max(result.seconds, slot.end);
    }
  }
  result.bubble = 1 - busy / (shape.ranks * result.seconds);
  for (const Schedule& schedule : schedules) result.in_flight.push_back(max_in_flight(schedule));
  return std::move(result);
}

}  // namespace tutti::train
