// A plan as a picture: a space-time diagram in SVG.
#pragma once

#include <span>
#include <string>

#include "plan/plan.hpp"

namespace tutti::tools {

/// Ranks from top to bottom, time from left to right; an arrow for each message, lanes in colours, and beside it what
/// travels: for reductions, whose contributions are in it. The plans (all ranks', proven) take a unit of time a
/// message.
std::string draw_svg(std::span<const plan::RankPlan> plans, const std::string& title);

}  // namespace tutti::tools
