#include "tools/run/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/env.hpp"

namespace tutti::tools {

namespace {

/// Opens a pipe again with O_NONBLOCK, which others who share the descriptor must not get. Empty for anything else.
Fd open_again(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISFIFO(file.st_mode)) return {};
  return Fd(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

Sink::Sink(int fd) : own_(open_again(fd)), fd_(own_ ? own_.get() : fd) {}

bool Sink::put(std::string_view text) {
  if (text_ != nullptr) {
    *text_ += text.substr(0, kMaxText - std::min(kMaxText, text_->size()));
    return true;
  }
  if (error_ != 0) return false;
  kept_ += text;
  return kept_.size() > text.size() || pump();  // if it was blocked before, its turn comes later
}

bool Sink::pump() {
  size_t done = 0;
  while (done < kept_.size() && error_ == 0) {
    pollfd writable{fd_, POLLOUT, 0};
    if (poll(&writable, 1, 0) == 0) break;
    // A terminal or a socket that is ready takes this much without waiting.
    const ssize_t written = write(fd_, kept_.data() + done, std::min<size_t>(kept_.size() - done, PIPE_BUF));
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  kept_.erase(0, error_ != 0 ? kept_.size() : done);
  return error_ == 0;
}

void Sink::wait_for(std::vector<pollfd>& fds) const {
  if (blocked()) fds.push_back({fd_, POLLOUT, 0});
}

Outputs::Outputs() : out_(STDOUT_FILENO) {
  struct stat out {
  }, err{};
  const bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
                    out.st_ino == err.st_ino;
  if (!same) err_.emplace(STDERR_FILENO);
}

void Outputs::wait_for(std::vector<pollfd>& fds) const {
  out_.wait_for(fds);
  if (err_) err_->wait_for(fds);
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

bool reader_gone(int fd) {
  pollfd stream{fd, 0, 0};
  return poll(&stream, 1, 0) == 1 && (stream.revents & POLLERR) != 0;
}

bool shows_colours(int stream) { return foreign_env("NO_COLOR").value_or("").empty() && isatty(stream) != 0; }

std::string rank_prefix(int rank, bool coloured) {
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\033[{}m[{}]\033[0m ", 31 + rank % 6, rank);
}

}  // namespace tutti::tools
