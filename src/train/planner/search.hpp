// The fastest layout that fits, among all: every way to write the number of GPUs as dp·pp·cp·ep·tp, with every ZeRO
// stage, recomputation, depth of interleaving and micro-batch. Two kinds of layout are looked at only where nothing
// else fits: context parallelism of short sequences, then tensor parallelism across hosts.
#pragma once

#include "train/planner/scenario.hpp"

namespace tutti::train::planner {

/// What the user has decided; the rest is searched.
struct Fixed {
  std::optional<int64_t> dp, pp, cp, ep, tp, zero, recompute, micro_batch;
};

struct Candidate {
  Layout layout;
  std::vector<double> values;  ///< of step_sheet(), all parts (only memory for one that does not fit)
  double at(const char* name) const { return values[step_value(name)]; }

 private:
  static size_t step_value(const char* name);
};

struct Outcome {
  std::vector<Candidate> best;        ///< the fastest first; empty if nothing fits
  std::optional<Candidate> smallest;  ///< the least memory among those that do not fit
  int64_t layouts = 0;                ///< whose sizes divide model, batch and GPUs
  int64_t too_large = 0;              ///< do not fit; larger micro-batches of theirs were not looked at
  int64_t skipped_memory = 0;         ///< ZeRO stages whose model states alone are too large
  int64_t skipped_time = 0;           ///< whose arithmetic and bubble alone take longer than what was found
  int64_t timed = 0;                  ///< computed to the end
};

/// `keep`: how many of the fastest. `prune` false: looks at everything (for tests). Throws Error(InvalidArgument) if a
/// fixed size divides nothing, or no layout uses all GPUs.
Outcome search(const Scenario& scenario, const Fixed& fixed, size_t keep = 5, bool prune = true);

/// The smallest number of GPUs of this kind, twice, four times… as many as now, on which the job fits; 0 if none does.
int64_t gpus_that_fit(Scenario scenario, const Fixed& fixed);

}  // namespace tutti::train::planner
