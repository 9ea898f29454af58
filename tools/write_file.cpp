#include "tools/write_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/format.hpp"

namespace tutti::tools {

void write_file(const std::string& option, const std::string& path, const std::string& text) {
  if (path == kStandardOutput) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw_error(Code::SystemError, "{}{}{}: {}", option, option.empty() ? "" : " ", path, std::strerror(errno));
}

}  // namespace tutti::tools
