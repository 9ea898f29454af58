// The ranks that measure, as they are placed on hosts.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/run/hosts.hpp"
#include "tools/tune/cells.hpp"

namespace tutti::tools {

/// The ranks of the first host, at most so many.
std::vector<Placement> near(const std::vector<Placement>& ranks, size_t most);

/// Throws Error(OutOfMemory) if this host has no room for the buffers of its ranks.
void check_room(const std::vector<Cell>& cells, const std::vector<Placement>& ranks);

}  // namespace tutti::tools
