#pragma once

#include <string>

namespace tutti::transports::shm {

inline constexpr const char* kSummary = "processes of one host; payloads are read from the sender's arena";

/// Tries what it needs here, for people: TransportEntry::state.
std::string state();

}  // namespace tutti::transports::shm
