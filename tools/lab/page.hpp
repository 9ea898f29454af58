// The page of `tutti lab --html`: its files, in the program, and the data that they need.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/lab/options.hpp"

namespace tutti::tools {

struct EmbeddedText {
  std::string_view name;  ///< of a file of tools/lab/page
  std::string_view text;
};
std::span<const EmbeddedText> embedded_texts();

/// One file that needs nothing else. It opens with this scenario.
std::string lab_page(const LabScenario& lab);

}  // namespace tutti::tools
