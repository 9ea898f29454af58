// What the work of ranks on this machine's cores costs, by the quick calibration.
#pragma once

#include "select/calibration.hpp"
#include "sim/machine.hpp"

namespace tutti::tools {

/// What a call touches.
struct Footprint {
  uint64_t in = 0, out = 0;  ///< bytes of a rank's buffers
  bool streams = false;      ///< results are stored past the cache
  Rank ranks = 1, cores = 1;
};

/// Replaces the figures of copies, folds and the kernel by those for a call of this footprint: in the caches of a core,
/// in the last cache, or in memory.
void refine(const select::Calibration& measured, const Footprint& footprint, sim::WorkCosts& costs);

}  // namespace tutti::tools
