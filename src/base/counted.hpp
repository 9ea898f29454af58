// Counts of things in messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace tutti {

/// "1 rank", "2 ranks"; with a plural that has no s of its own, "2 processes".
inline std::string counted(uint64_t number, const char* what, const char* plural = nullptr) {
  if (number != 1 && plural != nullptr) return fmt::format("{} {}", number, plural);
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace tutti
