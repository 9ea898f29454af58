#include "tools/run/guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "base/format.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {
namespace {

/// Reads groups to watch (positive) and to drop (negative) until the pipe closes, then kills those that remain.
[[noreturn]] void guard(int line, const std::string& mark) {
  std::set<pid_t> groups;
  pid_t word = 0;
  for (;;) {
    const ssize_t got = read(line, &word, sizeof word);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof word) break;  // such short writes are atomic
    if (word > 0) {
      groups.insert(word);
    } else {
      groups.erase(-word);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  kill_marked(mark);
  _exit(0);
}

/// Closes the launcher's descriptors here, else their readers would not see the end of file.
void close_all_but(int line) {
  const int nothing = open("/dev/null", O_RDWR);
  for (int stream = 0; stream <= 2; ++stream) dup2(nothing, stream);
  const auto kept = static_cast<unsigned>(line);
  if (kept > 3) syscall(SYS_close_range, 3U, kept - 1, 0U);
  syscall(SYS_close_range, kept + 1, ~0U, 0U);
}

}  // namespace

Guardian::Guardian(std::string mark) : mark_(std::move(mark)) { start(); }

Guardian::~Guardian() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Guardian::start() {
  Pipe pipe = make_pipe(), ready = make_pipe();
  pid_ = fork();
  if (pid_ < 0) throw_error(Code::SystemError, "cannot start a process: {}; see ulimit -u", std::strerror(errno));
  if (pid_ == 0) {
    setsid();  // Ctrl-C, and signals to the launcher's group, must not reach it
    prctl(PR_SET_NAME, kGuardianName);
    pipe.write.reset();              // we wait for its end of file
    close_all_but(pipe.read.get());  // the launcher waits for that of `ready`
    guard(pipe.read.get(), mark_);
  }
  // So a guardian remains even where the launcher is killed with its group, as that of a job within a job.
  ready.write.reset();
  char none = 0;
  while (read(ready.read.get(), &none, 1) < 0 && errno == EINTR) {
  }
  line_ = std::move(pipe.write);
}

void Guardian::replace(const std::vector<pid_t>& groups) {
  pid_ = -1;
  start();
  for (const pid_t group : groups) watch(group);
}

void Guardian::tell(pid_t group) {
  while (::write(line_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace tutti::tools
