// Whether a method can run given plans.
#pragma once

#include <string>

#include "exec/method.hpp"

namespace tutti::exec {

/// Why the method cannot run the plans of `ranks` ranks; "" if it can. `is_barrier`: they are a barrier's. Calls
/// plan_of(rank) only for a method that looks at plans.
template <class PlanOf>
std::string why_not(const Method& method, bool is_barrier, Rank ranks, const PlanOf& plan_of) {
  if (is_barrier && *method.why_no_barrier != '\0') return method.why_no_barrier;
  std::string why;
  for (Rank rank = 0; method.accepts != nullptr && rank < ranks && why.empty(); ++rank) {
    why = method.accepts(plan_of(rank));
  }
  return why;
}

}  // namespace tutti::exec
