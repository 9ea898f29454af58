// Formats error texts: throw_error(Code::Timeout, "waited {:.1f} s for rank {}", seconds, rank).
#pragma once

#include <fmt/format.h>

#include <utility>

#include "tutti/error.hpp"

namespace tutti {

template <class... Args>
[[noreturn]] void throw_error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tutti
