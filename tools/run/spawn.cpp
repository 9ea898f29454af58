#include "tools/run/spawn.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

/// This process's environment with some variables replaced or added.
std::vector<std::string> merged_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> merged = extra;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : extra) replaced = replaced || other.compare(0, name.size(), name) == 0;
    if (!replaced) merged.push_back(text);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// Steps of the child between fork and exec. The first that fails ends it and reports why through `report`.
[[noreturn]] void become(const SpawnRequest& request, const AffinityMask& cores, char* const* argv, char* const* envp,
                         pid_t parent, int report) {
  const auto give_up = [report] {
    const int why = errno;
    const bool told = write(report, &why, sizeof why) == sizeof why;
    _exit(told ? 127 : 126);
  };
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up();
  if (getppid() != parent) _exit(127);  // the parent died before the death signal was set
  setrlimit(RLIMIT_NOFILE, &request.inherited.open_files);
  if (!cores.empty()) run_on(cores);
  const int in = request.in >= 0 ? request.in : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || (in != 0 && dup2(in, 0) < 0)) give_up();
  if (request.out >= 0 && dup2(request.out, 1) < 0) give_up();
  if (request.err >= 0 && dup2(request.err, 2) < 0) give_up();
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &request.inherited.mask, nullptr);
  execvpe(argv[0], argv, envp);
  give_up();
  _exit(127);
}

}  // namespace

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw_error(Code::SystemError, "cannot create a pipe: {}; see ulimit -n", std::strerror(errno));
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

pid_t spawn(const SpawnRequest& request) {
  std::vector<std::string> program = request.program, environment = merged_environment(request.environment);
  const std::vector<char*> argv = pointers(program), envp = pointers(environment);
  const AffinityMask cores = request.cpus ? affinity_mask(*request.cpus) : AffinityMask{};
  Pipe report = make_pipe();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw_error(Code::SystemError, "cannot start a process: {}; see ulimit -u", std::strerror(errno));
  if (child == 0) become(request, cores, argv.data(), envp.data(), parent, report.write.get());

  report.write.reset();
  int why = 0;
  ssize_t got = 0;
  do {
    got = read(report.read.get(), &why, sizeof why);  // end of file without a byte once exec closes the other end
  } while (got < 0 && errno == EINTR);
  if (got == sizeof why) {
    waitpid(child, nullptr, 0);
    throw CannotRun(fmt::format("cannot run \"{}\": {}", request.program[0], std::strerror(why)),
                    why == ENOENT ? 127 : 126);
  }
  return child;
}

}  // namespace tutti::tools
