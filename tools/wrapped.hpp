// Text in lines that fit a terminal, or a drawing.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// Lines of at most `longest` characters. Longer words stay whole.
std::vector<std::string> lines_of(const std::string& text, size_t longest);

/// In lines of at most 100 columns, all but the first after `indent` blanks; the first begins at that column.
std::string wrapped(const std::string& text, size_t indent);

}  // namespace tutti::tools
