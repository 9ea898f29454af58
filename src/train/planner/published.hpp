// Runs whose speed was published, to compare the planner with.
#pragma once

#include <string>
#include <vector>

#include "train/planner/search.hpp"

namespace tutti::train::planner {

struct PublishedRun {
  const char* name;    ///< for --published
  const char* label;   ///< for people
  const char* source;  ///< paper and table
  const char* seen;    ///< where the figures were compared with it
  Scenario scenario;
  Fixed fixed;              ///< what was published of the layout; the rest is searched
  double published;         ///< share of the GPUs' peak
  bool with_recomputation;  ///< `published` counts recomputed arithmetic too (HFU, not MFU)
  const char* assumed;      ///< what the source does not say
};

std::span<const PublishedRun> published_runs();

struct Prediction {
  Candidate candidate;
  double share = 0;  ///< of the same kind as `published`
  double error = 0;  ///< (predicted − published)/published
  bool fits = true;  ///< in the GPU's whole memory, by the planner's estimate
};

/// The fastest layout within what was published, where training sustains this share of the kernels' rates.
Prediction predict(const PublishedRun& run, double efficiency = kSustained);

/// The efficiency with which the prediction is what was published; 1 if none is high enough.
double matching_efficiency(const PublishedRun& run);

/// The runs of one paper, predicted with the efficiency that all other papers' runs give: the median of their
/// matching ones.
struct HeldOut {
  std::string paper;  ///< "Narayanan 2021"
  double efficiency = 0;
  std::vector<double> errors;  ///< as Prediction::error
};
std::vector<HeldOut> hold_out();

/// The median: of an even number, the mean of both middle ones. `values` is not empty.
double median(std::vector<double> values);

}  // namespace tutti::train::planner
