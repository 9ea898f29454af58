#include "transports/shm/tracer.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/log.hpp"

namespace tutti::transports {
namespace {

constexpr size_t kDeepest = 1000;                 // ancestors; a bound, because processes change while they are read
constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;  // the kernel's PROC_PID_INIT_INO

/// `process` and its ancestors.
std::vector<int> lineage(int process, const std::function<int(int)>& parent_of) {
  std::vector<int> all;
  for (int p = process; p > 0 && all.size() < kDeepest; p = parent_of(p)) all.push_back(p);
  return all;
}

/// 0 if it cannot be read.
int parent_of_process(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold any character; then come the state and the parent
  if (name_end == std::string::npos || line.size() < name_end + 4) return 0;
  return std::max(0, std::atoi(line.c_str() + name_end + 4));
}

bool yama_restricts() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return file >> scope && scope == 1;  // 0 restricts nothing, 2 and 3 permit nobody
}

bool in_first_pid_namespace() {
  struct stat space {};
  return stat("/proc/self/ns/pid", &space) != 0 || space.st_ino == kFirstPidNamespace;
}

}  // namespace

int tracer_for(int self, std::span<const int> others, const std::function<int(int)>& parent_of, bool whole_machine) {
  std::map<int, int> parents;
  const auto known_parent_of = [&](int process) {
    const auto [entry, fresh] = parents.try_emplace(process, 0);
    if (fresh) entry->second = parent_of(process);
    return entry->second;
  };
  std::vector<int> common = lineage(self, known_parent_of);
  for (const int other : others) {
    const auto theirs = lineage(other, known_parent_of);
    std::erase_if(common, [&](int p) { return std::find(theirs.begin(), theirs.end(), p) == theirs.end(); });
  }
  if (!common.empty() && (common.front() > 1 || !whole_machine)) return common.front();
  return others.size() == 1 ? others.front() : 0;
}

void permit_cma(std::span<const int> others, const Confirm& confirm) {
  static std::mutex mutex;
  static Yama yama{.restricts = yama_restricts,
                   .parent_of = parent_of_process,
                   .name = [](int process) { return prctl(PR_SET_PTRACER, process, 0, 0, 0) == 0; },
                   .whole_machine = in_first_pid_namespace()};
  const std::lock_guard lock(mutex);
  permit_cma(others, confirm, yama);
}

void permit_cma(std::span<const int> others, const Confirm& confirm, Yama& yama) {
  if (others.empty() || !yama.restricts()) return;
  std::vector<int> all;
  std::copy_if(others.begin(), others.end(), std::back_inserter(all), confirm);
  if (all.empty()) return;
  const int self = getpid();
  if (yama.by == self && yama.named != 0) all.push_back(yama.named);  // the kernel keeps one name
  const int tracer = tracer_for(self, all, yama.parent_of, yama.whole_machine);
  if (tracer == 0) {
    log_debug("the ranks of this host have no common launcher: Yama does not let them read each other's memory");
    return;
  }
  if (yama.name(tracer)) {
    yama.named = tracer;
    yama.by = self;
  }
}

}  // namespace tutti::transports
