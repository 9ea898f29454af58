// The answers of hosts: lists of JSON objects.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/shallow_json.hpp"

namespace tutti::tools {

/// Each row of the list as `read` makes it. Throws Error(ProtocolError) if it is no such list.
template <class Row>
std::vector<Row> parse_rows(std::string_view text, Row (*read)(const nlohmann::json& row)) {
  try {
    const nlohmann::json rows = parse_shallow_json(std::string(text));
    if (!rows.is_array()) throw_error(Code::ProtocolError, "not an answer of tutti: not a list");
    std::vector<Row> all;
    for (const auto& row : rows) all.push_back(read(row));
    return all;
  } catch (const nlohmann::json::exception& error) {
    throw_error(Code::ProtocolError, "not an answer of tutti: {}", error.what());
  }
}

}  // namespace tutti::tools
