// kill -9 of the launcher must leave nothing behind, but the launcher cannot do anything about it then. So a process of
// its own waits for the launcher's end and kills the process groups of the ranks that are still there.
#pragma once

#include <sys/types.h>

#include "base/fd.hpp"

namespace tutti::tools {

class Guardian {
 public:
  /// Starts it. Throws Error(SystemError).
  Guardian();
  /// Ends it, without harm to anybody it was told about.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }
  pid_t pid() const { return pid_; }

 private:
  void tell(pid_t group);

  pid_t pid_ = -1;
  Fd line_;  // its other end: closed with this process, however it ends
};

}  // namespace tutti::tools
