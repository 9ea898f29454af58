// A job of `tutti run` as plain data, and the function that runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topo/cores.hpp"

namespace tutti::tools {

class Restarts;

/// The placement of one rank.
struct Placement {
  std::string host;           ///< as the user wrote it; empty: this host
  int local_rank = 0;         ///< among the ranks of its host
  int local_size = 1;         ///< number of ranks of its host
  std::optional<Cores> cpus;  ///< the processors it is bound to; empty: the launcher's
};

struct Job {
  std::string speaker = "tutti run";  ///< prefix of messages on stderr
  std::vector<std::string> program;   ///< and its arguments
  std::vector<Placement> ranks;       ///< [rank]
  std::string name;                   ///< the job's identity
  std::string secret;                 ///< the ranks' key is derived from it
  std::string root;                   ///< host of rank 0 as the others reach it; empty if all ranks are here
  uint16_t port = 0;                  ///< where rank 0 serves the unique id, between hosts
  std::string launcher;               ///< what runs a command on {host}, words separated by blanks; empty: ssh
  std::string input;                  ///< what each rank reads on its standard input, before the launcher's
  std::vector<std::string> exported;  ///< "NAME=VALUE" for all ranks, or "NAME": passed to other hosts
  bool prefix = true;       ///< output lines start with "[rank] "; else ranks write directly to the launcher's output
  bool terminals = true;    ///< if the launcher's stdout is a terminal, so is that of ranks on this host
  bool feed_stdin = true;   ///< rank 0 reads the launcher's stdin; else all ranks' stdin is empty
  double grace = 5;         ///< seconds in which the others may end by themselves after a rank has failed
  bool keep_going = false;  ///< the others are left alone when a rank has failed
  double notice = 30;  ///< seconds in which ranks may end by themselves after SIGTERM, where `restarts` can tell them
  bool saves = false;  ///< ranks that get SIGINT or SIGTERM save what they have: they have `notice` seconds for it, too
  std::shared_ptr<Restarts> restarts;  ///< null: a rank that fails ends the job
  bool verbose = false;                ///< reports on stderr what is started where
  uint64_t tasks = 1;                  ///< minimum of processes and threads per rank
  uint64_t bytes = 0;                  ///< minimum of memory per rank …
  std::string bytes_for;               ///< … and its purpose
};

/// "name=value" variables that rank `rank` gets in addition to the launcher's environment.
std::vector<std::string> rank_environment(const Job& job, int rank);

/// Sets the job's name and secret: TUTTI_KEY, else a random one. Throws Error(SystemError).
void name_job(Job& job);

/// Bytes of staging memory of a rank among several, as TUTTI_ARENA says.
uint64_t staging_bytes();

/// Starts all ranks, forwards their output and the launcher's signals, and returns when all processes of the job have
/// ended: 0, or the first failure's exit status (128 + signal). Failures are printed on stderr. Throws Error if nothing
/// could be started, or if the system's limits do not allow all ranks. Call it from a process that has no other threads
/// than the control thread.
int run_job(const Job& job);

}  // namespace tutti::tools
