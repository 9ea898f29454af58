// What all drawings begin with, and how text stands in them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tutti::tools {

inline std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return safe;
}

/// The start of a drawing of this size, on white ground.
inline std::string svg_start(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
}

}  // namespace tutti::tools
