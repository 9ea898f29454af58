// What ranks did in a simulation, as a Chrome trace and as a drawing.
#pragma once

#include <string>

#include "sim/replay.hpp"

namespace tutti::sim {

/// Chrome's trace format (chrome://tracing, ui.perfetto.dev): a process a rank, a thread a lane and replica.
std::string chrome_trace(const Replay& replay, const std::string& title);

inline constexpr Rank kMaxDrawn = 64;  ///< ranks in a drawing

/// A row for each lane of the first ranks, a bar for each instruction.
std::string timeline_svg(const Replay& replay, const std::string& title);

}  // namespace tutti::sim
