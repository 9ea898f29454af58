// Which transports are usable on this machine, or exactly why not.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

/// "name": "usable: …" or "not usable: why", most preferred first.
nlohmann::ordered_json transport_lines();

/// The transports that connect hosts and can be used here, most preferred first.
std::vector<std::string> usable_between_hosts();

}  // namespace tutti::tools
