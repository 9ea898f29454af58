// An executor that runs plans on real numbers, one step at a time, in random order.
//
// It tests the verifier, so it shares nothing with it but the plan's tables: elements are 64-bit integers,
// folds are wrap-around sums of random inputs, completing a fold multiplies by a random odd factor (as an average
// divides: once, at the end, or the result is wrong), and memory that was never written holds noise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::test {

/// One run: the conditions that a plan's result must not depend on.
struct Trial {
  uint64_t seed = 1;
  std::vector<uint64_t> windows{16};  ///< elements of a block, round by round
  bool in_place = false;
  uint32_t capacity = 8;  ///< messages a link holds
  uint32_t versions = 2;  ///< of scratch
};

/// Empty if every output (and, out of place, every input) is right at the end; else the fault.
/// The tables must be sound: indices in range, peers that exist.
std::string run_in_random_order(std::span<const plan::RankPlan> plans, const Trial& trial);

}  // namespace tutti::test
