// A plan as a picture: a space-time diagram in SVG.
#pragma once

#include <span>
#include <string>

#include "plan/plan.hpp"

namespace tutti::tools {

/// What is drawn of the plans.
struct View {
  static constexpr Rank kAllRanks = -1;
  Rank root = 0;          ///< the rank that takes the role of the plans' rank 0
  Rank rank = kAllRanks;  ///< only this rank's messages, and the ranks that it exchanges them with
};

/// Ranks from top to bottom, time from left to right. Each message is an arrow with its lane's colour, labelled with
/// its content; for reductions, with its contributors. If there are many ranks, only some have labels and emphasised
/// arrows. The plans (all ranks', verified) take one unit of time per message.
std::string draw_svg(std::span<const plan::RankPlan> plans, const std::string& title, const View& view = {});

}  // namespace tutti::tools
