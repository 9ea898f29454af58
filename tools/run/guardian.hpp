// kill -9 of the launcher must leave nothing behind, but the launcher cannot do anything about it then. So a process of
// its own waits for the launcher's end and kills the process groups of the ranks that are still there, and whatever
// carries the job's mark. The launcher starts another one when it is killed itself. Should both be killed at once, the
// kernel still ends the ranks, though not what they started.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.hpp"

namespace tutti::tools {

class Guardian {
 public:
  /// Starts it. `mark`: "NAME=value", which the processes of the job have in their environment, and no others.
  /// Throws Error(SystemError).
  explicit Guardian(std::string mark);
  /// Ends it, without harm to anybody it was told about.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }
  /// -1: there is none.
  pid_t pid() const { return pid_; }
  /// To be called when it has ended and was reaped: starts another, for these groups. Throws Error(SystemError).
  void replace(const std::vector<pid_t>& groups);

 private:
  void start();
  void tell(pid_t group);

  std::string mark_;
  pid_t pid_ = -1;
  Fd line_;  // its other end: closed with this process, however it ends
};

}  // namespace tutti::tools
