// The trees along which a plan moves its blocks, found in its messages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::tools {

/// The way of a part of the buffer, from one rank to all others or, where sums go to the root, from them.
struct PlanTree {
  std::string carries;  ///< "block 2", "block 0, 1/4 from 1/4 on"
  bool up = false;      ///< to the root
  Rank root = 0;
  std::vector<Rank> parents;  ///< by rank; of the root: kNoRank

  std::vector<std::vector<Rank>> children() const;
};

/// Those of all ranks' plans, which are verified. Ranks are the plans', and `root` is added to them. What does not go
/// along a tree, as exchanges between pairs, is left out.
std::vector<PlanTree> trees_of(std::span<const plan::RankPlan> plans, Rank root);

}  // namespace tutti::tools
