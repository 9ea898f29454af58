// What `tutti tune` refuses before it measures for minutes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/run/hosts.hpp"
#include "tools/tune/cells.hpp"

namespace tutti::tools {

/// A profile has the times of calls as they are without variables that change them. Throws Error(InvalidArgument) if
/// one is set, here or among those that are exported to all ranks ("NAME" or "NAME=VALUE").
void refuse_what_changes_times(const std::vector<std::string>& exported);

/// The ranks of the first host, at most so many.
std::vector<Placement> near(const std::vector<Placement>& ranks, size_t most);

/// Throws Error(OutOfMemory) if this host has no room for the buffers of its ranks.
void check_room(const std::vector<Cell>& cells, const std::vector<Placement>& ranks);

}  // namespace tutti::tools
