// The user's own plans: TUTTI_PLAN.
#pragma once

#include <map>
#include <string>

#include "plan/algorithm.hpp"

namespace tutti::select {

/// The algorithm that calls of a collective must use, by collective.
using Given = std::map<Collective, const plan::Algorithm*>;

/// Reads and verifies the plans of the files in `paths` (separated by ':') and returns those for `ranks` ranks. Plans
/// for other numbers of ranks are logged as a warning, once for each file and number of ranks. Throws
/// Error(InvalidArgument, SystemError), which names the file and its fault, or two files with plans for the same
/// collective.
Given given_plans(const std::string& paths, Rank ranks);

/// Throws what given_plans() throws of a file that cannot be read; plans are not verified.
void check_plan_files(const std::string& paths);

}  // namespace tutti::select
