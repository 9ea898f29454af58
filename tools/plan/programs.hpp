// What tutti plan verify says of the methods that run a plan.
#pragma once

#include <span>

#include "plan/plan.hpp"

namespace tutti::tools {

/// Proves the programs that each method makes of the plans, and prints a line for each. False: one is wrong.
bool prove_programs(std::span<const plan::RankPlan> plans);

}  // namespace tutti::tools
