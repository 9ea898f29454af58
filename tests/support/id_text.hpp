// Unique ids as text, for lines to other processes.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tutti/tutti.h"

namespace tutti::test {

inline std::string hex_of(const tuttiUniqueId& id) {
  std::string text;
  for (const unsigned char byte : id.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

inline tuttiUniqueId id_from(const std::string& hex) {
  tuttiUniqueId id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

}  // namespace tutti::test
