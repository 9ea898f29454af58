#include "tools/output_file.hpp"

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti::tools {

OutputFile::OutputFile(const std::string& option, const std::string& path, bool append)
    : what_(option + (option.empty() ? "" : " ") + path) {
  if (path.empty()) return;
  if (path == kStandardOutput) {
    throw_error(Code::InvalidArgument,
                "{}: this command's text is on standard output, and the file is written meanwhile: name a file", what_);
  }
  file_.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
  if (file_ == nullptr) fail();
}

void OutputFile::write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0) fail();
}

void OutputFile::close() {
  if (file_ != nullptr && std::fclose(file_.release()) != 0) fail();
}

void OutputFile::fail() const { throw_error(Code::SystemError, "{}: {}", what_, std::strerror(errno)); }

void write_file(const std::string& option, const std::string& path, const std::string& text) {
  if (path == kStandardOutput) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  OutputFile file(option, path, false);
  file.write(text);
  file.close();
}

}  // namespace tutti::tools
