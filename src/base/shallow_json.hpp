// JSON that ranks exchange: a few levels deep.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti {

/// Parses another rank's text. Rejects deeper nesting than Tutti uses with Error(ProtocolError): values are copied and
/// printed by recursive functions, so deep nesting would overflow the stack. For text that is not JSON, throws
/// nlohmann::json::exception, or returns a discarded value if `throws` is false.
nlohmann::json parse_shallow_json(const std::string& text, bool throws = true);

/// A whole number ≥ 0. Throws Error(ProtocolError) for any other value, such as 1e300, whose cast is undefined.
uint64_t whole_number(const nlohmann::json& value);

}  // namespace tutti
