// Do the ranks of this host fit into what the system allows? Better asked before the first of them is started.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// What a job takes on this host, at the least.
struct Demand {
  uint64_t ranks = 0;       ///< processes that the launcher starts here: ranks, and an ssh for each rank elsewhere
  uint64_t tasks = 1;       ///< processes and threads of each
  uint64_t open_files = 0;  ///< of the launcher, for each
  uint64_t bytes = 0;       ///< of memory, each …
  std::string bytes_for;    ///< … and what for
};
Demand demand_of(const Job& job);

/// What the system allows, and the name of the limit that decides.
struct Allowance {
  uint64_t tasks = ~uint64_t{0};
  std::string tasks_by;
  uint64_t open_files = ~uint64_t{0};
  uint64_t bytes = ~uint64_t{0};
};
/// `root` stands before /proc and /sys, for tests.
Allowance allowance(const std::string& root = "");

/// Throws Error(SystemError), or Error(OutOfMemory), that names the limit and says how many ranks it allows.
void check_fits(const Demand& demand, const Allowance& allowed);

/// Lets this process open more files, for its life; other programs that it starts are to have what was `before`.
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
