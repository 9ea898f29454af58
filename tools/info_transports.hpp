// Which transports are usable on this machine, or exactly why not.
#pragma once

#include <nlohmann/json.hpp>

namespace tutti::tools {

/// "name": "usable: …" or "not usable: why", most preferred first.
nlohmann::ordered_json transport_lines();

}  // namespace tutti::tools
