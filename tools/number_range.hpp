// The check of an option that is a real number. CLI11's own Range lets nan through, which is neither below nor above.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/format.hpp"

namespace tutti::tools {

/// Takes numbers from `lowest` to `highest`, both included, and refuses nan.
inline CLI::Validator within(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0;
    const bool inside = CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest;
    return inside ? std::string() : fmt::format("Value {} not in range {:g} to {:g}", text, lowest, highest);
  };
  return CLI::Validator(check, fmt::format("FLOAT in [{:g} - {:g}]", lowest, highest));
}

}  // namespace tutti::tools
