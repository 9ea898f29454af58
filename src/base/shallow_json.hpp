// JSON as ranks exchange it: a few levels deep.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti {

/// Reads a text of another rank. One that is nested deeper than any of ours is refused, Error(ProtocolError): values
/// are copied and printed by functions that call themselves once a level, so a deep one would take more stack than
/// there is. What is no JSON at all throws nlohmann::json::exception, or gives a discarded value where `throws` is
/// false.
nlohmann::json parse_shallow_json(const std::string& text, bool throws = true);

/// A whole number from 0 on. Throws Error(ProtocolError) for any other value, such as 1e300, which no cast survives.
uint64_t whole_number(const nlohmann::json& value);

}  // namespace tutti
