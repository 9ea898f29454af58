#include "tools/wrapped.hpp"

#include <algorithm>

namespace tutti::tools {

std::string wrapped(const std::string& text, size_t indent) {
  constexpr size_t kColumns = 100;
  std::string lines;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column + (end - at) > kColumns && column > indent) {
      lines.erase(lines.find_last_not_of(' ') + 1);
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    }
    lines += text.substr(at, end + 1 - at);
    column += end + 1 - at;
    at = end + 1;
  }
  return lines;
}

}  // namespace tutti::tools
