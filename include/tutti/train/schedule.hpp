// Pipeline schedules as data: what each rank computes, in which order. Pure functions; nothing here communicates.
//
// p ranks in a row, m micro-batches, v chunks of units on each rank. The model's chunks are stages 0 … vp−1; stage s is
// chunk s / p of rank s mod p. F is a forward pass, B the backward pass by the input, W the backward pass by the
// weights.
//
//     naive        one micro-batch in the pipeline at a time: share of idle time ("bubble") (p−1)/p
//     gpipe        all F, then all B: bubble (p−1)/(m+p−1), m micro-batches' activations (Huang et al., NeurIPS 2019)
//     1f1b         B as soon as possible: the same bubble, at most p activations
//                  (Narayanan et al., PipeDream, SOSP 2019)
//     interleaved  v chunks a rank: bubble (p−1)/(vm+p−1), v times the messages (Narayanan et al., SC 2021, §2.2)
//     zb-h1        1f1b, whose W fill the bubble: (p−1)/(3m+p−1) if F, B and W last equally long (Qi et al., ICLR 2024)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/train/executor.hpp"

namespace tutti::train {

enum class ScheduleKind : uint8_t { Naive, GPipe, OneFOneB, Interleaved, ZeroBubble };
const char* name_of(ScheduleKind kind);
/// Of "naive", "gpipe", "1f1b", "interleaved" or "zb-h1". Throws Error(InvalidArgument), which names them all.
ScheduleKind schedule_kind(std::string_view name);

struct PipelineShape {
  int ranks = 1;          ///< p
  int micro_batches = 1;  ///< m
  int chunks = 1;         ///< v, of each rank
  int stages() const { return ranks * chunks; }
  int stage(int rank, int chunk) const { return chunk * ranks + rank; }
};

/// Why there is no such schedule, and what would do; "" if there is one.
std::string objection(ScheduleKind kind, const PipelineShape& shape);
/// What one rank does. Throws Error(InvalidArgument) with the objection.
Schedule make_schedule(ScheduleKind kind, const PipelineShape& shape, int rank);
std::vector<Schedule> make_schedules(ScheduleKind kind, const PipelineShape& shape);

/// What is wrong with the ranks' schedules together; "" if they are proven right: each chunk runs F, B and W of each
/// micro-batch exactly once and in that order, each message's two ends come in the same order on both ranks, and the
/// ranks cannot wait for each other in a circle.
std::string fault_of(const std::vector<Schedule>& schedules, const PipelineShape& shape);

/// What the parts of the work last, in any unit of time. One stage's pass over one micro-batch.
struct StageCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double transfer = 0;  ///< of an activation or its gradient, from rank to rank; it holds up neither of them
  double of(Action::What what) const;
};

/// One action in time.
struct Slot {
  Action action;
  double start = 0, end = 0;
};

/// The schedules as they would run.
struct Simulation {
  std::vector<std::vector<Slot>> slots;  ///< [rank]
  std::vector<int> in_flight;  ///< [rank]: the most (chunk, micro-batch) pairs with F done and not all of B and W
  double seconds = 0;          ///< from the first action to the last
  double bubble = 0;           ///< share of the ranks' time in which they are idle
};
/// Throws Error(InvalidArgument) with the fault if the schedules have one.
Simulation simulate(const std::vector<Schedule>& schedules, const PipelineShape& shape, const StageCosts& costs);

/// The share of idle time by the formula: for stages that all cost the same, and no time for messages. zb-h1's needs
/// m ≥ p, else it is a bound from below. `costs` are those of a rank's whole part (all of its chunks).
double bubble_formula(ScheduleKind kind, const PipelineShape& shape, const StageCosts& costs = {});
/// The same as text, e.g. "(p-1)/(m+p-1)".
const char* bubble_text(ScheduleKind kind);

}  // namespace tutti::train
