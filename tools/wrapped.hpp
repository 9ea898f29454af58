// Text in lines that fit a terminal.
#pragma once

#include <string>

namespace tutti::tools {

/// In lines of at most 100 columns, all but the first after `indent` blanks; the first begins at that column. Longer
/// words stay whole.
std::string wrapped(const std::string& text, size_t indent);

}  // namespace tutti::tools
