// Which plans the methods can run that interpret no lanes: "" or why not.
#pragma once

#include <string>

#include "exec/compile/multimem_steps.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

/// Copy engines: one message from each rank to each other, all of them sent before any is received, and none folded.
std::string why_not_copies(const plan::RankPlan& plan);
/// A switch: a plan of one of the forms, which read_multimem_form() sets.
std::string why_not_nvls(const plan::RankPlan& plan);
std::string read_multimem_form(const plan::RankPlan& plan, MultimemForm& form);

}  // namespace tutti::exec
