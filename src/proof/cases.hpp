// The calls for which methods are proven: every kind of delivery, long and short rounds, in place and not.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/verify.hpp"
#include "proof/setting.hpp"

namespace tutti::proof {

struct NamedSetting {
  std::string name;  ///< "staged", "zero-copy, in place"
  Setting setting;
};

/// Calls of two or three rounds, the last of them short, and one of a single element.
std::vector<NamedSetting> settings_of(const exec::Method& method, const plan::RankPlan& plan);

/// Why the method does not run the plans of all ranks; "" if it does.
std::string why_not(const exec::Method& method, std::span<const plan::RankPlan> plans);

/// What is proven of a method.
struct MethodProof {
  std::string method;
  std::string why_not;             ///< it does not run the plans
  std::vector<std::string> calls;  ///< that were proven
  plan::Verdict verdict;           ///< of the call that follows them, if it is not right
};
/// Of all methods. The plans must have been verified.
std::vector<MethodProof> prove_methods(std::span<const plan::RankPlan> plans);

}  // namespace tutti::proof
