#include "support/child.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <sstream>
#include <vector>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "tutti/error.hpp"

namespace tutti::test {
namespace {

constexpr const char* kRoleVariable = "CHILD_OF_TEST_ROLE";
constexpr const char* kArgumentVariable = "CHILD_OF_TEST_ARGUMENT";
constexpr int kLineFd = 3;

std::map<std::string, Role::Body>& roles() {
  static std::map<std::string, Role::Body> all;
  return all;
}

int play(const std::string& role, const std::string& argument) {
  Line line{Fd(kLineFd)};
  try {
    return roles().at(role)(argument, line);
  } catch (const std::exception& error) {
    line.tell(std::string("error: ") + error.what());
    return 99;
  }
}

/// Runs before any test: a process started in a role never gets to the tests.
class PlayRole : public testing::Environment {
 public:
  void SetUp() override {
    if (const char* role = std::getenv(kRoleVariable)) {
      const char* argument = std::getenv(kArgumentVariable);
      std::exit(play(role, argument ? argument : ""));
    }
  }
};
[[maybe_unused]] const auto* const registered = testing::AddGlobalTestEnvironment(new PlayRole);

}  // namespace

Role::Role(const char* name, Body body) { roles()[name] = body; }

void Line::tell(const std::string& line) { send_all(fd_.get(), line + "\n", {Deadline::in(30), nullptr}); }

std::string Line::receive(double seconds) {
  const WaitLimit limit{Deadline::in(seconds), nullptr};
  try {
    while (received_.find('\n') == std::string::npos) {
      char byte = 0;
      recv_all(fd_.get(), &byte, 1, limit);
      received_ += byte;
    }
  } catch (const Error& error) {
    return error.code() == Code::Timeout ? "(late)" : "(nothing)";
  }
  const std::string line = received_.substr(0, received_.find('\n'));
  received_.erase(0, line.size() + 1);
  return line;
}

Child::Child(const std::string& role, const std::string& argument, const std::string& environment)
    : Child(start(role, argument, environment)) {}

Child Child::start(const std::string& role, const std::string& argument, const std::string& environment) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  // All strings are made before the fork: the child of a process with threads may do little but exec.
  std::vector<std::string> variables{fmt::format("{}={}", kRoleVariable, role),
                                     fmt::format("{}={}", kArgumentVariable, argument)};
  std::istringstream more(environment);
  for (std::string word; more >> word;) variables.push_back(word);
  std::vector<char*> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.push_back(*entry);
  for (std::string& variable : variables) all.push_back(variable.data());
  all.push_back(nullptr);
  char program[] = "/proc/self/exe", color[] = "--gtest_color=no";
  char* arguments[] = {program, color, nullptr};
  const pid_t process = fork();
  if (process == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    if (ends[1] == kLineFd) {
      fcntl(kLineFd, F_SETFD, 0);
    } else {
      dup2(ends[1], kLineFd);
    }
    execve(program, arguments, all.data());
    _exit(98);
  }
  close(ends[1]);
  return Child(process, Fd(ends[0]));
}

Child::Child(Child&& other) noexcept : process_(std::exchange(other.process_, -1)), line_(std::move(other.line_)) {}

Child::~Child() {
  if (process_ < 0) return;
  signal(SIGKILL);
  wait();
}

void Child::signal(int number) const {
  if (process_ <= 0) return;  // never −1, which means all processes
  kill(process_, number);
  if (number != SIGSTOP) return;
  // The kernel hands SIGSTOP to one thread; the others go on until that one gets a core.
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(process_), &info, WSTOPPED | WEXITED | WNOWAIT);
}

int Child::wait() {
  int status = 0;
  if (process_ < 0 || waitpid(std::exchange(process_, -1), &status, 0) < 0) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace tutti::test
