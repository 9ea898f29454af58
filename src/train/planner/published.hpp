// Runs whose speed was published, to compare the planner with.
#pragma once

#include "train/planner/search.hpp"

namespace tutti::train::planner {

struct PublishedRun {
  const char* name;    ///< for --published
  const char* label;   ///< for people
  const char* source;  ///< paper and table
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

/// The fastest layout within what was published.
Prediction predict(const PublishedRun& run);

}  // namespace tutti::train::planner
