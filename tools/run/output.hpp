// What ranks write, line by line, so that lines of different ranks never mix.
#pragma once

#include <string>
#include <string_view>

namespace tutti::tools {

/// Writes all of `text`; false when the reader is gone or the device is full.
bool write_all(int fd, std::string_view text);

/// Puts a prefix before each line. Holds back an incomplete last line until the rest of it comes, `finish` is called or
/// it passes kMaxLine.
class LinePrefixer {
 public:
  static constexpr size_t kMaxLine = 64 * 1024;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that `text` completes, each with its prefix and newline; "" when it completes none.
  std::string add(std::string_view text);
  /// What was held back, with a newline.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

/// Does a person look at this stream who wants colours? A terminal, unless NO_COLOR is set (https://no-color.org).
bool shows_colours(int stream);

/// "[3] ", in one of six colours where a person looks at it.
std::string rank_prefix(int rank, bool coloured);

}  // namespace tutti::tools
