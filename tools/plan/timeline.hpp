// When things happen in a plan, and what is in its messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::tools {

/// One message of a window's way through the plan.
struct Flight {
  Rank from = 0, to = 0;
  uint32_t lane = 0;
  int depart = 0, arrive = 0;  ///< in messages: one takes a unit of time, all else none
  std::string what;            ///< "0+1: out[1/4]"; its contributors where the plan reduces
};

/// All messages of one window, by departure. The plans must be proven. Plans count ranks, and blocks that belong to
/// ranks, from the root; flights name them as they are with this root.
std::vector<Flight> timeline(std::span<const plan::RankPlan> plans, Rank root = 0);

}  // namespace tutti::tools
