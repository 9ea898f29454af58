// Forwards ranks' output line by line, so that lines of different ranks never mix.
#pragma once

#include <string>
#include <string_view>

namespace tutti::tools {

/// Writes all of `text`; false if the reader is gone or the device is full.
bool write_all(int fd, std::string_view text);

/// Puts a prefix before each line. Buffers an incomplete last line until it is completed, `finish` is called or it
/// exceeds kMaxLine.
class LinePrefixer {
 public:
  static constexpr size_t kMaxLine = 64 * 1024;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that `text` completes, each with its prefix and newline; "" when it completes none.
  std::string add(std::string_view text);
  /// The buffered line, with a newline.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

/// True if this stream is a terminal and NO_COLOR is not set (https://no-color.org).
bool shows_colours(int stream);

/// "[3] ", in one of six colours on a terminal.
std::string rank_prefix(int rank, bool coloured);

}  // namespace tutti::tools
