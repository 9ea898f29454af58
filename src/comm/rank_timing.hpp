// What a rank's trace says of its timing: when it left calls that no rank leaves before all have entered.
#pragma once

#include <vector>

#include "control/status/call_timing.hpp"
#include "trace/ring.hpp"

namespace tutti::comm {

/// Of the events of a rank's trace: when it is now, and the calls. They are chosen by their numbers, so that all ranks
/// choose the same, or some half of those that another one chooses.
control::RankTiming timing_of(const std::vector<trace::Event>& events);

}  // namespace tutti::comm
