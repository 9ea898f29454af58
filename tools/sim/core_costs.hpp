// What the work of ranks on this machine's cores costs, by the quick calibration.
#pragma once

#include <optional>

#include "select/calibration.hpp"
#include "sim/machine.hpp"

namespace tutti::tools {

/// What a call touches.
struct Footprint {
  uint64_t in = 0, out = 0;  ///< bytes of a rank's buffers
  bool streams = false;      ///< results are stored past the cache
  Rank ranks = 1, cores = 1;
};

/// What a call takes that has nothing to do: one of a single rank. Measured in some 100 us; none if that fails.
std::optional<double> call_seconds();

/// Of an imported machine: how much of a call's buffers crosses the memory of their packages, where a rank's part of
/// the last cache is this many bytes.
void take_memory(uint64_t cache, const Footprint& footprint, sim::WorkCosts& costs);

/// Of this machine: replaces the figures of copies, folds and the kernel by those for a call of this footprint: in the
/// caches of a core, in the last cache, or in memory.
void refine(const select::Calibration& measured, const Footprint& footprint, sim::WorkCosts& costs);

}  // namespace tutti::tools
