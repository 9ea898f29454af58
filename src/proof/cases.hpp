// The cases for which methods are proven: every kind of delivery, mixed ones, long and short rounds, in place and not.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/verify.hpp"
#include "proof/call_case.hpp"

namespace tutti::proof {

/// Calls of several rounds, the last of them short; of a single element, and of none. On few ranks also of more rounds
/// than links have slots.
std::vector<CallCase> cases_of(const exec::Method& method, const plan::RankPlan& plan);

/// Why the method does not run the plans of all ranks; "" if it does.
std::string why_not(const exec::Method& method, std::span<const plan::RankPlan> plans);

/// What is proven of a method.
struct MethodProof {
  std::string method;
  std::string why_not;             ///< it does not run the plans
  std::vector<std::string> cases;  ///< that were proven
  plan::Verdict verdict;           ///< of the case that follows them, if it is not right
};
/// Of all methods. The plans must have been verified.
std::vector<MethodProof> prove_methods(std::span<const plan::RankPlan> plans);

}  // namespace tutti::proof
