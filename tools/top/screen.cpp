#include "tools/top/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string_view>

#include "base/deadline.hpp"

namespace tutti::tools {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l";  // another screen, no cursor
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

termios saved;

/// Only what a signal handler may call.
void put_back() {
  tcsetattr(STDIN_FILENO, TCSANOW, &saved);
  (void)!write(STDOUT_FILENO, kLeave.data(), kLeave.size());
}

void end(int number) {
  put_back();
  signal(number, SIG_DFL);
  raise(number);
}

winsize size_of_terminal() {
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return size;
}

}  // namespace

Screen::Screen() : is_terminal_(isatty(STDOUT_FILENO) != 0) {
  if (!is_terminal_ || tcgetattr(STDIN_FILENO, &saved) != 0) return;
  reads_keys_ = true;
  for (const int number : kEnding) signal(number, end);
  termios keys = saved;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VSUSP] = keys.c_cc[VQUIT] = _POSIX_VDISABLE;  // Ctrl-Z would leave the shell this terminal as it is now
  tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  std::fwrite(kEnter.data(), 1, kEnter.size(), stdout);
}

Screen::~Screen() {
  if (!reads_keys_) return;
  std::fflush(stdout);
  put_back();
  for (const int number : kEnding) signal(number, SIG_DFL);
}

size_t Screen::width() const {
  if (!is_terminal_) return std::numeric_limits<size_t>::max();
  const size_t columns = size_of_terminal().ws_col;
  return columns == 0 ? 80 : columns;
}

size_t Screen::height() const { return is_terminal_ ? size_of_terminal().ws_row : 0; }

void Screen::show(const std::string& text) const {
  std::string page = is_terminal_ ? "\033[H" : "";
  for (const char c : text) page += is_terminal_ && c == '\n' ? "\033[K\n" : std::string(1, c);
  if (is_terminal_) page += "\033[J";
  std::fwrite(page.data(), 1, page.size(), stdout);
  std::fflush(stdout);
}

char Screen::key(double seconds) const {
  const Deadline deadline = Deadline::in(seconds);
  pollfd keyboard{.fd = reads_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  do {
    if (poll(&keyboard, 1, deadline.poll_ms()) <= 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) == 1) return key;
    keyboard.fd = -1;  // its input has ended
  } while (!deadline.passed());
  return 0;
}

}  // namespace tutti::tools
