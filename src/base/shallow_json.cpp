#include "base/shallow_json.hpp"

#include "base/format.hpp"

namespace tutti {

nlohmann::json parse_shallow_json(const std::string& text, bool throws) {
  using nlohmann::json;
  static constexpr int kDeepest = 16;
  const auto check = [](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw_error(Code::ProtocolError, "JSON of another rank is nested deeper than {}", kDeepest);
    return true;
  };
  return json::parse(text, check, throws);
}

uint64_t whole_number(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) {
    throw_error(Code::ProtocolError, "another rank sent '{}' in place of a whole number", value.dump().substr(0, 100));
  }
  return value.get<uint64_t>();
}

}  // namespace tutti
