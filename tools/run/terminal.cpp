#include "tools/run/terminal.hpp"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tutti::tools {

std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size) {
  PseudoTerminal made{Fd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), Fd()};
  if (!made.master || unlockpt(made.master.get()) != 0) return std::nullopt;
  made.slave = Fd(ioctl(made.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios how{};
  if (!made.slave || tcgetattr(made.slave.get(), &how) != 0) return std::nullopt;
  cfmakeraw(&how);  // no "\r\n" for "\n", and no echo
  if (tcsetattr(made.slave.get(), TCSANOW, &how) != 0) return std::nullopt;
  ioctl(made.master.get(), TIOCSWINSZ, &size);
  return made;
}

std::optional<winsize> window_size(int fd, size_t columns) {
  winsize size{};
  if (isatty(fd) == 0) return std::nullopt;
  ioctl(fd, TIOCGWINSZ, &size);  // zeros if it has none
  size.ws_col = static_cast<unsigned short>(size.ws_col - std::min<size_t>(size.ws_col, columns));
  return size;
}

}  // namespace tutti::tools
