// What `tutti run` is asked for, in plain data, and the function that does it.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// Where one rank runs.
struct Placement {
  std::string host;               ///< as the user wrote it; empty: this host
  int local_rank = 0;             ///< among the ranks of its host
  int local_size = 1;             ///< number of ranks of its host
  std::optional<cpu_set_t> cpus;  ///< the processors it is bound to; nothing: as the launcher
};

struct Job {
  std::string speaker = "tutti run";  ///< who speaks on stderr
  std::vector<std::string> program;   ///< and its arguments
  std::vector<Placement> ranks;       ///< [rank]
  std::string name;                   ///< the job's identity
  std::string secret;                 ///< what the ranks' key is made from
  std::string root;                   ///< host of rank 0 as the others reach it; empty when all ranks are here
  uint16_t port = 0;                  ///< where rank 0 meets the others, between hosts
  std::vector<std::string> exported;  ///< "NAME" or "NAME=VALUE": passed on to other hosts
  bool prefix = true;                 ///< output lines start with "[rank] "; else ranks write where the launcher does
  bool terminals = true;              ///< where the launcher's stdout is a terminal, so is that of ranks here
  bool feed_stdin = true;             ///< rank 0 reads the launcher's stdin; else it is empty for all
  double grace = 5;                   ///< seconds the others have to end by themselves when a rank has failed
  bool verbose = false;               ///< says on stderr what is started where
  uint64_t tasks = 1;                 ///< processes and threads that a rank is at the least
  uint64_t bytes = 0;                 ///< of memory that it takes at the least …
  std::string bytes_for;              ///< … and what for
};

/// "name=value" of what rank `rank` finds in its environment on top of the launcher's own.
std::vector<std::string> rank_environment(const Job& job, int rank);

/// Gives the job a name of its own, and a secret: TUTTI_KEY, else a random one. Throws Error(SystemError).
void name_job(Job& job);

/// Bytes of staging memory that a rank of several has, as TUTTI_ARENA says.
uint64_t staging_bytes();

/// Starts all ranks, passes on what they write and the signals that come, and returns when all have ended and nothing
/// of them is left: 0, or the first failure's exit status (128 + signal). Failures are told on stderr. Throws Error
/// where nothing could be started, or the system's limits say that not all can. Call it from a process with one thread.
int run_job(const Job& job);

}  // namespace tutti::tools
