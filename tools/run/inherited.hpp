// What programs inherit from the launcher unchanged, although it has changed it for itself.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace tutti::tools {

struct Inherited {
  sigset_t mask{};      ///< of signals
  rlimit open_files{};  ///< RLIMIT_NOFILE
};

}  // namespace tutti::tools
