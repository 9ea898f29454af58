// The settings that all ranks of a communicator must have alike.
#pragma once

#include <string>

#include "control/endpoint.hpp"

namespace tutti::comm {

/// The settings that must be equal on all ranks, so that they understand each other and choose alike (of TUTTI_CMA: a
/// reader looks for revoked messages only where it expects zero-copy ones). A rank passes this to Endpoint::join.
std::string configuration();
/// Throws Error(Mismatch), which names both ranks and the setting, unless all ranks have joined with the same.
void compare_configurations(const control::Endpoint& endpoint);

}  // namespace tutti::comm
