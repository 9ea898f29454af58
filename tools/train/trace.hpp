// `tutti train --trace`: the timeline of a step in files.
#pragma once

#include <string>
#include <vector>

#include "tutti/train/trainer.hpp"

namespace tutti::tools {

/// One step; rank 0 (`writes`) then writes its timeline to each file, in the form that its name ends in. Throws
/// Error(SystemError) if one cannot be written.
train::StepReport traced_step(train::Trainer& trainer, const std::vector<std::string>& files, bool writes);

/// Throws Error(InvalidArgument) for names that end neither in .svg nor in .json.
void check_trace_names(const std::vector<std::string>& files);

}  // namespace tutti::tools
