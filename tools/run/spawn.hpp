// Starts one process of a job.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "topo/cores.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// Both ends close on exec.
struct Pipe {
  Fd read, write;
};
/// Throws Error(SystemError).
Pipe make_pipe();

/// A program that could not be started; `status` is a shell's exit status: 127 not found, else 126.
class CannotRun : public Error {
 public:
  CannotRun(const std::string& what, int status) : Error(Code::SystemError, what), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// What programs inherit from the launcher unchanged, although it has changed it for itself.
struct Inherited {
  sigset_t mask{};      ///< of signals
  rlimit open_files{};  ///< RLIMIT_NOFILE
};

struct SpawnRequest {
  std::vector<std::string> program;      ///< found through PATH
  std::vector<std::string> environment;  ///< "NAME=value", in addition to this process's
  std::optional<Cores> cpus;
  Inherited inherited;
  int in = -1, out = -1, err = -1;  ///< its standard streams; -1: empty input, or our own output
};

/// Starts the program as the leader of a new process group; it is killed when the calling thread ends. Returns once it
/// runs. Throws CannotRun; Error(SystemError).
pid_t spawn(const SpawnRequest& request);

}  // namespace tutti::tools
