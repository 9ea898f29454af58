// Small random defects in plans: what a slip of the pen, or a flipped bit on the way, would make of them.
#pragma once

#include <random>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::test {

enum class Mutation : uint8_t {
  DropStep,
  DoubleStep,
  SwapSteps,
  RedirectPeer,
  ShiftPiece,
  DropOperand,
  DoubleOperand,
  ClaimComplete,
  ClaimLend,
  DropAfter
};
inline constexpr int kMutations = 10;
const char* name_of(Mutation mutation);

/// Changes one place of one rank's plan, chosen by chance. The tables stay sound (every index in range). False, and no
/// change, where the place that was chosen has nothing of that kind.
bool mutate(std::vector<plan::RankPlan>& plans, Mutation mutation, std::mt19937_64& random);

}  // namespace tutti::test
