// A pseudo-terminal between a rank's standard output and the launcher's, if that is a terminal: programs then write
// line by line, and not only after 4 KiB.
#pragma once

#include <sys/ioctl.h>

#include <optional>

#include "base/fd.hpp"

namespace tutti::tools {

/// Bytes written to `slave` are read from `master` unchanged; nothing is echoed. Both close on exec, and are no
/// process's controlling terminal.
struct PseudoTerminal {
  Fd master, slave;
};

/// Empty if the system has none left (kernel.pty.max).
std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size);

/// The size of the terminal at `fd`, with `columns` subtracted for a prefix; empty if it is not a terminal.
std::optional<winsize> window_size(int fd, size_t columns);

}  // namespace tutti::tools
