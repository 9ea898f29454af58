// What ranks did in a simulation, as a Chrome trace.
#pragma once

#include <string>

#include "sim/replay.hpp"

namespace tutti::sim {

/// Chrome's trace format (chrome://tracing, ui.perfetto.dev): a process a rank, a thread a lane and replica.
std::string chrome_trace(const Replay& replay, const std::string& title);

/// "step 3: folds rank 2's message, sends to rank 4, 4096 B".
std::string words_of(const Event& event);

}  // namespace tutti::sim
