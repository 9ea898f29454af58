// Text files that are in the program: cmake/EmbedText.cmake writes the functions that return them.
#pragma once

#include <span>
#include <string_view>

namespace tutti::tools {

struct EmbeddedText {
  std::string_view name;  ///< of the file
  std::string_view text;
};

/// Of tools/lab/page.
std::span<const EmbeddedText> lab_texts();
/// Of tools/watch/page.
std::span<const EmbeddedText> watch_texts();

}  // namespace tutti::tools
