// Checks before the start that the ranks of this host fit into the system's limits.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// The minimum demand of a job on this host.
struct Demand {
  uint64_t ranks = 0;        ///< processes that the launcher starts here: ranks, and one ssh for each rank elsewhere
  uint64_t tasks = 1;        ///< processes and threads of each
  uint64_t open_files = 0;   ///< of the launcher, for each
  uint64_t bytes = 0;        ///< of memory each …
  std::string bytes_for;     ///< … and its purpose
  uint64_t connections = 0;  ///< that carry signals, one of each other host
};
Demand demand_of(const Job& job);

/// The system's limit, and the name of the setting that decides it.
struct Allowance {
  uint64_t tasks = ~uint64_t{0};
  std::string tasks_by;
  uint64_t open_files = ~uint64_t{0};
  uint64_t bytes = ~uint64_t{0};
};
/// `root` is prepended to /proc and /sys, for tests.
Allowance allowance(const std::string& root = "");

/// Throws Error(SystemError) or Error(OutOfMemory) that names the limit and the number of ranks it allows.
void check_fits(const Demand& demand, const Allowance& allowed);

/// Raises this process's limit of open files; programs that it starts get the limit `before`.
class OpenFiles {
 public:
  explicit OpenFiles(const Demand& demand);
  ~OpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  const rlimit& before() const { return before_; }

 private:
  rlimit before_{};
};

}  // namespace tutti::tools
