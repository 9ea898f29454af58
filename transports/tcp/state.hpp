#pragma once

#include <string>

namespace tutti::transports::tcp {

/// The interfaces and ports that it would use, for people: TransportEntry::state.
std::string state();

}  // namespace tutti::transports::tcp
