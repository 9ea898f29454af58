// How plans fold: what programs are compared with, since the bits of results depend on it.
#pragma once

#include <span>
#include <vector>

#include "plan/verify/forest.hpp"
#include "proof/call_case.hpp"

namespace tutti::proof {

/// By the plan's rank, output block, and element.
using ExpectedFolds = std::vector<std::vector<std::vector<plan::verifier::Value>>>;

/// What the plans make of the outputs of a reduction, in trees of `forest`.
ExpectedFolds folds_of(std::span<const plan::RankPlan> plans, const CallCase& how, plan::verifier::Forest& forest);

}  // namespace tutti::proof
