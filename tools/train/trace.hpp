// `tutti train --trace`: what all ranks did in a step, in files.
#pragma once

#include <string>
#include <vector>

#include "tools/output_file.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::tools {

/// The files of a trace, open. Throws Error(SystemError) if one cannot be written.
std::vector<OutputFile> open_traces(const std::vector<std::string>& names);

/// One step; then its timeline is written to each of `files` (rank 0's; none on the others), in the form that its name
/// ends in. Throws Error(SystemError) if one cannot be written.
train::StepReport traced_step(train::Trainer& trainer, const std::vector<std::string>& names,
                              std::vector<OutputFile>& files);

/// Throws Error(InvalidArgument) for names that end neither in .svg nor in .json.
void check_trace_names(const std::vector<std::string>& files);

}  // namespace tutti::tools
