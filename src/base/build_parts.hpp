// The optional parts of this build (cmake/Parts.cmake): what is in it, and what was left out and why.
#pragma once

#include <span>
#include <string_view>

namespace tutti {

struct BuildPart {
  std::string_view name;  ///< "ucx"
  bool in = false;        ///< false: left out
  std::string_view
      words;  ///< what it was built with, or why it was left out, e.g. "UCX was not found (package libucx-dev)"
};

std::span<const BuildPart> build_parts();

/// Null if the build knows no optional part of this name.
const BuildPart* find_build_part(std::string_view name);

}  // namespace tutti
