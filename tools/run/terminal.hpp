// A pseudo-terminal between a rank's standard output and the launcher's, where that is a terminal: programs then write
// line by line, as they do on a terminal, and not only when 4 KiB have come together.
#pragma once

#include <sys/ioctl.h>

#include <optional>

#include "base/fd.hpp"

namespace tutti::tools {

/// What is written to `slave` comes out of `master` byte by byte as it was written, and nothing comes back. Both close
/// on exec, and are nobody's controlling terminal.
struct PseudoTerminal {
  Fd master, slave;
};

/// Nothing where the system has none left (kernel.pty.max).
std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size);

/// The size of the terminal at `fd`, with `columns` taken off for a prefix; nothing where it is none.
std::optional<winsize> window_size(int fd, size_t columns);

}  // namespace tutti::tools
