// Counts of things in messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace tutti {

/// "1 rank", "2 ranks".
inline std::string counted(uint64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace tutti
