#include "tools/run/guardian.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "base/format.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {
namespace {

/// Reads groups to watch (positive) and to forget (negative) until the line is cut, then kills what is watched.
[[noreturn]] void guard(int line) {
  setsid();  // no terminal's Ctrl-C is meant for it
  std::set<pid_t> groups;
  pid_t word = 0;
  for (;;) {
    const ssize_t got = read(line, &word, sizeof word);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof word) break;  // writes of so few bytes come whole
    if (word > 0) {
      groups.insert(word);
    } else {
      groups.erase(-word);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian() {
  Pipe pipe = make_pipe();
  pid_ = fork();
  if (pid_ < 0) throw_error(Code::SystemError, "no process could be started: {}; see ulimit -u", std::strerror(errno));
  if (pid_ == 0) {
    pipe.write.reset();
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream = 0; stream <= 2; ++stream) dup2(nothing, stream);  // nobody shall wait for it to close them
    guard(pipe.read.get());
  }
  line_ = std::move(pipe.write);
}

Guardian::~Guardian() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Guardian::tell(pid_t group) {
  while (write(line_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace tutti::tools
