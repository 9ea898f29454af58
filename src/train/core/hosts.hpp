// On which hosts the ranks are.
#pragma once

#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

/// The name of each rank's host. All ranks call together.
std::vector<std::string> hosts_of(Communicator& world);

}  // namespace tutti::train
