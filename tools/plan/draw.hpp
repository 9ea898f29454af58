// A plan as a picture: a space-time diagram in SVG.
#pragma once

#include <span>
#include <string>

#include "plan/plan.hpp"

namespace tutti::tools {

/// What of the plans is drawn.
struct View {
  static constexpr Rank kAllRanks = -1;
  Rank root = 0;          ///< the rank that plays the plans' rank 0
  Rank rank = kAllRanks;  ///< only what this rank sends and receives, and the ranks that it does so with
};

/// Ranks from top to bottom, time from left to right; an arrow for each message, lanes in colours, and beside it what
/// travels: for reductions, whose contributions are in it. Of many ranks only every few have such words, and strong
/// arrows. The plans (all ranks', proven) take a unit of time a message.
std::string draw_svg(std::span<const plan::RankPlan> plans, const std::string& title, const View& view = {});

}  // namespace tutti::tools
