// The machines that `tutti tune` measures.
#pragma once

#include <string>

#include "tutti/tutti.hpp"

namespace tutti::tools {

/// Rank 0 writes the machines of all ranks, each kind once. All ranks call it.
void write_machines(Communicator& comm, const std::string& results);

}  // namespace tutti::tools
