#include "tools/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

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

void check_output(const std::string& option, const std::string& path, const std::vector<std::string>& reads) {
  if (path.empty() || path == kStandardOutput) return;
  struct stat there {};
  const bool exists = stat(path.c_str(), &there) == 0;
  for (const std::string& file : reads) {
    struct stat read {};
    if (!exists || stat(file.c_str(), &read) != 0 || read.st_dev != there.st_dev || read.st_ino != there.st_ino)
      continue;
    throw_error(Code::InvalidArgument, "{}{}{}: this command reads that file, which would be overwritten; name another",
                option, option.empty() ? "" : " ", path);
  }
  if (exists && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) return;  // opening a pipe may wait
  OutputFile(option, path, true).close();
  if (!exists) unlink(path.c_str());
}

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
