// Files that options of commands name.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace tutti::tools {

inline constexpr const char* kStandardOutput = "-";

/// A file that is written in parts, beside what the command prints: never the standard output. Errors name it and its
/// option, also those of a full disk.
class OutputFile {
 public:
  OutputFile() = default;
  /// Opens it; path "" is no file. `option` "": errors name the path alone. Throws Error(SystemError), and
  /// Error(InvalidArgument) for kStandardOutput.
  OutputFile(const std::string& option, const std::string& path, bool append);
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
  std::string what_;  // option and path
  std::unique_ptr<FILE, Close> file_;
};

/// Before a long computation: throws what write_file() would throw after it. Also Error(InvalidArgument) if the file is
/// one of those that the command reads. Leaves no file where there was none.
void check_output(const std::string& option, const std::string& path, const std::vector<std::string>& reads = {});

/// Writes `text` to the file at `path`, kStandardOutput for the standard output. Throws as an OutputFile does.
void write_file(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tutti::tools
