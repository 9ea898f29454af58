// Forwards ranks' output line by line, so that lines of different ranks never mix.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"

namespace tutti::tools {

/// A stream that the launcher writes. Never waits, so that the launcher obeys signals while nobody reads its output:
/// what the reader does not take yet is kept.
class Sink {
 public:
  /// The descriptor stays the caller's.
  explicit Sink(int fd);

  /// Writes `text`, or keeps it. False: the reader is gone, or the device is full.
  bool put(std::string_view text);
  /// Something is kept. More should be put only when that has been written.
  bool blocked() const { return !kept_.empty(); }
  /// Writes what can be written of it now. False: as in put().
  bool pump();
  /// Adds the descriptor on which pump() waits.
  void wait_for(std::vector<pollfd>& fds) const;

 private:
  Fd own_;  // a pipe opened again, without waiting
  int fd_;
  std::string kept_;
  bool gone_ = false;
};

/// The launcher's two streams.
class Outputs {
 public:
  Outputs();
  Sink& out() { return out_; }
  /// The same as out() if both lead to one file: then what is written keeps its order, and lines stay whole.
  Sink& err() { return err_ ? *err_ : out_; }
  bool blocked() const { return out_.blocked() || (err_ && err_->blocked()); }
  bool pump() {
    const bool written = out_.pump();
    return (!err_ || err_->pump()) && written;
  }
  void wait_for(std::vector<pollfd>& fds) const;

 private:
  Sink out_;
  std::optional<Sink> err_;
};

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
