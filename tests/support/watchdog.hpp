// Ends hanging child processes, and shows where they hang.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tutti::test {

/// How a child process ended.
struct Ending {
  bool in_time = true;
  int status = 0;  ///< as waitpid gives it
  /// "" for exit status 0; else "exit status 3", "signal 6", "still running after 30 s".
  std::string text;
};

/// Waits for the children; those that still run after `seconds` have their stacks written to stderr (where gdb is
/// installed) and are killed.
std::vector<Ending> await_children(const std::vector<pid_t>& children, double seconds);

/// Writes the stacks of all threads of a process to stderr, by gdb; says so where there is none.
void dump_stacks(pid_t process);

}  // namespace tutti::test
