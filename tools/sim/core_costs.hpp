// What the work of ranks on this machine's cores costs, by the quick calibration.
#pragma once

#include "select/calibration.hpp"
#include "sim/machine.hpp"

namespace tutti::tools {

/// What a call touches.
struct Footprint {
  uint64_t bytes = 0;  ///< of a rank's input and output
  Rank ranks = 1, cores = 1;
};

/// Replaces the figures of copies, folds and the kernel by those for a call of this footprint: in the caches of a core,
/// in the last cache, or in memory.
void refine(const select::Calibration& measured, const Footprint& footprint, sim::WorkCosts& costs);

}  // namespace tutti::tools
