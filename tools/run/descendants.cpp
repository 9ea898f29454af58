#include "tools/run/descendants.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/deadline.hpp"

namespace tutti::tools {
namespace {

std::string content(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Processes with the mark that have not ended. An ended one has no environment any more.
int kill_marked_once(const std::string& mark) {
  int found = 0;
  std::error_code failure;
  for (auto entry = std::filesystem::directory_iterator("/proc", failure);
       !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    const std::string folder = entry->path();
    if (pid == getpid()) continue;
    if (('\0' + content(folder + "/environ")).find('\0' + mark + '\0') == std::string::npos) continue;
    if (content(folder + "/comm") == std::string(kGuardianName) + '\n') continue;
    kill(pid, SIGKILL);
    ++found;
  }
  return found;
}

}  // namespace

void kill_children(pid_t except) {
  for (;;) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
    int found = 0;
    for (pid_t child = 0; children >> child;) {
      if (child == except) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      ++found;
    }
    if (found == 0) return;
  }
}

void kill_marked(const std::string& mark) {
  const Deadline until = Deadline::in(10);
  while (kill_marked_once(mark) > 0 && !until.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the kernel has ended them
  }
}

}  // namespace tutti::tools
