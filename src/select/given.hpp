// Plans that the user gives: TUTTI_PLAN.
#pragma once

#include <map>
#include <string>

#include "plan/algorithm.hpp"

namespace tutti::select {

/// By collective, the algorithm that its calls must use.
using Given = std::map<Collective, const plan::Algorithm*>;

/// Reads and proves the plans of the files in `paths` (with ':' between them) and returns those for `ranks` ranks. Of
/// the others, a warning is logged, once for each file and number of ranks.
/// Throws Error(InvalidArgument, SystemError) naming the file and what is wrong with it, or the two files that give
/// plans for the same collective.
Given given_plans(const std::string& paths, Rank ranks);

}  // namespace tutti::select
