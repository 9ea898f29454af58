#include "tools/wrapped.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::tools {

std::vector<std::string> lines_of(const std::string& text, size_t longest) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (lines.back().size() + (end - at) > longest && !lines.back().empty()) {
      lines.back().erase(lines.back().find_last_not_of(' ') + 1);
      lines.emplace_back();
    }
    lines.back() += text.substr(at, end + 1 - at);
    at = end + 1;
  }
  return lines;
}

std::string wrapped(const std::string& text, size_t indent) {
  constexpr size_t kColumns = 100;
  return fmt::format("{}", fmt::join(lines_of(text, kColumns - indent), "\n" + std::string(indent, ' ')));
}

}  // namespace tutti::tools
