// How commands write what an option names.
#pragma once

#include <string>

namespace tutti::tools {

inline constexpr const char* kStandardOutput = "-";

/// Writes `text` to the file at `path`, kStandardOutput for the standard output. `option` names it in errors; "": the
/// path alone does. Throws Error(SystemError).
void write_file(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tutti::tools
