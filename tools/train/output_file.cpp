#include "tools/train/output_file.hpp"

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti::tools {

OutputFile::OutputFile(const char* flag, const std::string& path, bool append) : what_(std::string(flag) + " " + path) {
  if (path.empty()) return;
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

}  // namespace tutti::tools
