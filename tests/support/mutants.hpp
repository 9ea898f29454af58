// Small random defects in plans, as from a typing error or a flipped bit.
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

/// Changes one random entry of one rank's plan. The tables stay sound (every index in range). False, and no change, if
/// the chosen entry does not exist.
bool mutate(std::vector<plan::RankPlan>& plans, Mutation mutation, std::mt19937_64& random);

}  // namespace tutti::test
