// Runs a job for what its ranks print, as commands do that ask something of several hosts.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// What one rank answered.
struct Answer {
  int status = 0;      ///< its exit status, 128 + signal if a signal killed it
  bool late = false;   ///< it was ended, since its time was up
  std::string out;     ///< what it printed …
  std::string err;     ///< … on each stream
  std::string became;  ///< "exited with status 3"
};

/// Starts all ranks and waits for their ends, at most `seconds`; then they are ended. By rank. Throws Error: Aborted if
/// a signal ends this command; SystemError as run_job does.
std::vector<Answer> ask(const Job& job, double seconds);

}  // namespace tutti::tools
