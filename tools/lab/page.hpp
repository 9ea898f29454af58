// The page of `tutti lab --html`: its files, in the program, and the data that they need.
#pragma once

#include <string>

#include "tools/lab/options.hpp"

namespace tutti::tools {

/// One file that needs nothing else. It opens with this scenario.
std::string lab_page(const LabScenario& lab);

}  // namespace tutti::tools
