// The timing of a plan, and the content of its messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::tools {

/// One message of one window.
struct Flight {
  Rank from = 0, to = 0;
  uint32_t lane = 0;
  int depart = 0, arrive = 0;  ///< a message takes one unit of time, everything else none
  std::string what;            ///< "0+1: out[1/4]"; with contributors if the plan reduces
};

/// All messages of one window, by departure. The plans must be verified. Plans count ranks, and blocks that belong to
/// ranks, from the root; the result has actual ranks for this root.
std::vector<Flight> timeline(std::span<const plan::RankPlan> plans, Rank root = 0);

}  // namespace tutti::tools
