// tutti plan draw: a plan over time, or over a picture of its machine.
#pragma once

#include "tools/plan/subject.hpp"

namespace tutti::tools {

/// Writes the picture to the options' file. Throws Error(InvalidArgument) for what cannot be drawn.
void draw(const PlanOptions& options);

}  // namespace tutti::tools
