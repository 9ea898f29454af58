#include "tools/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>

namespace tutti::tools {
namespace {

constexpr char kWipe[] = "\r\033[K";

/// Clears the terminal's line, then lets the signal end the process as usual.
void wipe_and_end(int signal) {
  const ssize_t written = write(STDERR_FILENO, kWipe, sizeof kWipe - 1);
  std::signal(signal, SIG_DFL);
  raise(written < 0 ? SIGTERM : signal);
}

}  // namespace

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) != 0), from_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {
  if (!terminal_) return;
  std::signal(SIGINT, wipe_and_end);
  first_second_ = std::jthread([this](const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    std::condition_variable_any never;  // but for the end
    if (!never.wait_until(lock, end, from_, [&] { return end.stop_requested(); })) draw();
  });
}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& text) {
  const std::lock_guard lock(mutex_);
  text_ = text;
  if (terminal_ && std::chrono::steady_clock::now() >= from_) draw();
}

void Progress::draw() {
  if (text_.empty()) return;
  fmt::print(stderr, "{}{}", kWipe, text_);
  drawn_ = true;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (drawn_) fmt::print(stderr, "{}", kWipe);
  drawn_ = false;
  text_.clear();
}

}  // namespace tutti::tools
