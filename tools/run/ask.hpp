// Runs a job for what its ranks print, as commands do that ask something of several hosts.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// A signal has ended this command.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// What one rank answered.
struct Answer {
  int status = 0;      ///< its exit status, 128 + signal if a signal killed it
  bool late = false;   ///< it was ended, since its time was up
  std::string out;     ///< what it printed …
  std::string err;     ///< … on each stream
  std::string became;  ///< "exited with status 3"
};

/// Starts all ranks and waits for their ends, at most `seconds`; then they are ended. By rank. Throws Interrupted;
/// Error(SystemError) as run_job does.
std::vector<Answer> ask(const Job& job, double seconds);

}  // namespace tutti::tools
