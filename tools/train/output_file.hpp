// A file that a flag of `tutti train` names. Errors name both, also those of a full disk.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace tutti::tools {

class OutputFile {
 public:
  OutputFile() = default;
  /// Opens it; "" is no file. Throws Error(SystemError).
  OutputFile(const char* flag, const std::string& path, bool append);
  explicit operator bool() const { return file_ != nullptr; }
  /// All of it has left this process when it returns. Throws Error(SystemError).
  void write(const std::string& text);
  /// Throws Error(SystemError).
  void close();

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail() const;
  std::string what_;  // flag and path
  std::unique_ptr<FILE, Close> file_;
};

}  // namespace tutti::tools
