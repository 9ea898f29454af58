// kill -9 of the launcher must leave nothing behind, and the launcher itself cannot clean up then. A separate process
// waits for the launcher's end, then kills the remaining process groups of the ranks and every process with the job's
// mark. If the guardian is killed, the launcher starts another. If both are killed at once, the kernel still ends the
// ranks, but not their children.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.hpp"

namespace tutti::tools {

class Guardian {
 public:
  /// Starts it. `mark`: "NAME=value", an environment variable of this job's processes only. Throws Error(SystemError).
  explicit Guardian(std::string mark);
  /// Ends it; the watched groups are not affected.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }
  /// -1: not running.
  pid_t pid() const { return pid_; }
  /// Called when it has ended and was reaped: starts another for these groups. Throws Error(SystemError).
  void replace(const std::vector<pid_t>& groups);

 private:
  void start();
  void tell(pid_t group);

  std::string mark_;
  pid_t pid_ = -1;
  Fd line_;  // closes with this process, however it ends
};

}  // namespace tutti::tools
