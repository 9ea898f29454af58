// This program as a job of its own: how commands start their ranks.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// The file of this program. Throws Error(SystemError).
std::string own_program();

/// A job that runs this program again as these ranks, with `arguments` and --launched: named, bound to processors
/// unless a rank has several `threads`, without stdin and without prefixes. Throws Error(SystemError).
Job job_of_self(const std::string& speaker, const std::vector<std::string>& arguments, std::vector<Placement> ranks,
                int threads);

}  // namespace tutti::tools
