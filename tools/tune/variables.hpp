// Variables that a profile's measurements must be made without.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// A profile has the times of calls as they are without variables that change them. Throws Error(InvalidArgument) if
/// one is set, here or among those that are exported to all ranks ("NAME" or "NAME=VALUE").
void refuse_what_changes_times(const std::vector<std::string>& exported);

}  // namespace tutti::tools
