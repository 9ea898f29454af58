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
  static constexpr size_t kMaxText = 16 << 20;

  /// The descriptor stays the caller's.
  explicit Sink(int fd);
  /// Appends to `text`, which must outlive it, instead, up to kMaxText bytes; the rest is dropped.
  explicit Sink(std::string* text) : fd_(-1), text_(text) {}

  /// Writes `text`, or keeps it. False: the reader is gone, or the device is full.
  bool put(std::string_view text);
  /// Something is kept. More should be put only when that has been written.
  bool blocked() const { return !kept_.empty(); }
  /// Writes what can be written of it now. False: as in put().
  bool pump();
  /// Why nothing more can be written: 0, or an errno such as EPIPE.
  int error() const { return error_; }
  /// Adds the descriptor on which pump() waits.
  void wait_for(std::vector<pollfd>& fds) const;

 private:
  Fd own_;  // a pipe opened again, without waiting
  int fd_;
  std::string* text_ = nullptr;
  std::string kept_;
  int error_ = 0;
};

/// Where ranks' two streams go.
class Outputs {
 public:
  /// The launcher's.
  Outputs();
  /// These texts, which must outlive it.
  Outputs(std::string* out, std::string* err) : out_(out), err_(std::in_place, err), kept_(true) {}
  /// Ranks must not write to the launcher's streams themselves.
  bool kept() const { return kept_; }
  Sink& out() { return out_; }
  /// The same as out() if both lead to one file: then what is written keeps its order, and lines stay whole.
  Sink& err() { return err_ ? *err_ : out_; }
  bool blocked() const { return out_.blocked() || (err_ && err_->blocked()); }
  bool pump() {
    const bool written = out_.pump();
    return (!err_ || err_->pump()) && written;
  }
  /// That of either stream, first of all of the standard output.
  int error() const { return out_.error() != 0 || !err_ ? out_.error() : err_->error(); }
  void wait_for(std::vector<pollfd>& fds) const;

 private:
  Sink out_;
  std::optional<Sink> err_;
  bool kept_ = false;
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

/// True if the reader of this pipe or socket has closed it: then a write ends the writer by SIGPIPE.
bool reader_gone(int fd);

/// True if this stream is a terminal and NO_COLOR is not set (https://no-color.org).
bool shows_colours(int stream);

/// "[3] ", in one of six colours on a terminal.
std::string rank_prefix(int rank, bool coloured);

}  // namespace tutti::tools
