#include "tools/run/output.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.hpp"

namespace tutti::tools {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string LinePrefixer::add(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    partial_ += text.substr(0, newline);
    if (newline == std::string_view::npos) {
      if (partial_.size() >= kMaxLine) lines += finish();
      break;
    }
    lines += prefix_ + partial_ + '\n';
    partial_.clear();
    text.remove_prefix(newline + 1);
  }
  return lines;
}

std::string LinePrefixer::finish() {
  if (partial_.empty()) return "";
  std::string line = prefix_ + partial_ + '\n';
  partial_.clear();
  return line;
}

bool shows_colours(int stream) { return foreign_env("NO_COLOR").value_or("").empty() && isatty(stream) != 0; }

std::string rank_prefix(int rank, bool coloured) {
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\033[{}m[{}]\033[0m ", 31 + rank % 6, rank);
}

}  // namespace tutti::tools
