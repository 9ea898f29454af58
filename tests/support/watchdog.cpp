#include "support/watchdog.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "base/deadline.hpp"

namespace tutti::test {
namespace {

Ending ending_of(int status) {
  Ending ending{.status = status};
  if (WIFSIGNALED(status)) ending.text = "signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ending.text = "exit status " + std::to_string(WEXITSTATUS(status));
  return ending;
}

/// waitpid, at most until the deadline.
bool await_child(pid_t child, Deadline deadline, int& status) {
  for (;;) {
    const pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) return true;
    if (got < 0 || deadline.passed()) return false;
    const timespec moment{0, 2'000'000};
    nanosleep(&moment, nullptr);
  }
}

}  // namespace

std::vector<Ending> await_children(const std::vector<pid_t>& children, double seconds) {
  const Deadline deadline = Deadline::in(seconds);
  std::vector<Ending> endings(children.size());
  std::vector<size_t> late;
  for (size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    if (await_child(children[i], deadline, status)) {
      endings[i] = ending_of(status);
    } else {
      late.push_back(i);
      endings[i] = {.in_time = false, .text = "still running after " + std::to_string(seconds) + " s"};
    }
  }
  for (const size_t i : late) dump_stacks(children[i]);
  for (const size_t i : late) {
    kill(children[i], SIGKILL);
    waitpid(children[i], &endings[i].status, 0);
  }
  return endings;
}

void dump_stacks(pid_t process) {
  std::fprintf(stderr, "---- process %d still runs; its stacks:\n", process);
  std::fflush(stderr);
  const std::string number = std::to_string(process);
  const pid_t gdb = fork();
  if (gdb == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execlp("gdb", "gdb", "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all backtrace 20", "-p",
           number.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  if (gdb > 0 && waitpid(gdb, &status, 0) == gdb && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    std::fprintf(stderr, "(gdb is not installed: no stacks)\n");
  }
}

}  // namespace tutti::test
