#include "tools/run/limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/format.hpp"
#include "topo/cgroup.hpp"

namespace tutti::tools {
namespace {

constexpr uint64_t kLauncherFiles = 64;  // opened by the launcher itself: its streams, the guardian, one start
constexpr uint64_t kLauncherTasks = 1;   // the guardian

/// 0 if there is none.
uint64_t first_number(const std::string& file) {
  uint64_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

/// A line "key value" of a status file, the value in the given base.
uint64_t status_number(const std::string& file, std::string_view key, int base) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t digits = std::min(line.find_first_not_of(" \t", key.size()), line.size());
    uint64_t number = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), number, base);
    return number;
  }
  return 0;
}

/// RLIMIT_NPROC does not apply to root, nor to processes that may raise it or administer the system.
bool bound_by_user_limit(const std::string& root) {
  constexpr uint64_t kAdmin = uint64_t{1} << 21, kResource = uint64_t{1} << 24;
  return getuid() != 0 && (status_number(root + "/proc/self/status", "CapEff:", 16) & (kAdmin | kResource)) == 0;
}

/// Processes and threads of this user.
uint64_t tasks_of_user(const std::string& root) {
  uint64_t tasks = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string status = entry.path() / "status";
    if (status_number(status, "Uid:", 10) == getuid()) tasks += status_number(status, "Threads:", 10);
  }
  return tasks;
}

/// The number of all processes and threads: after the slash in "0.1 0.2 0.3 1/234 567".
uint64_t tasks_of_all(const std::string& root) {
  std::ifstream load(root + "/proc/loadavg");
  std::string word;
  for (int i = 0; i < 4; ++i) load >> word;
  uint64_t tasks = 0;
  const size_t slash = word.find('/');
  if (slash == std::string::npos) return 0;
  std::from_chars(word.data() + slash + 1, word.data() + word.size(), tasks);
  return tasks;
}

uint64_t less(uint64_t from, uint64_t taken) { return from - std::min(from, taken); }

}  // namespace

Demand demand_of(const Job& job) {
  const auto here = static_cast<uint64_t>(
      std::count_if(job.ranks.begin(), job.ranks.end(), [](const Placement& rank) { return rank.host.empty(); }));
  Demand demand{.ranks = job.ranks.size(), .tasks = 1, .open_files = 1, .bytes = 0};
  std::set<std::string> hosts;
  for (const Placement& rank : job.ranks) {
    if (!rank.host.empty()) hosts.insert(rank.host);
  }
  demand.connections = hosts.size();
  if (job.prefix || here < demand.ranks) demand.open_files += 2;  // output
  if (job.restarts != nullptr) demand.open_files += 1;            // its connection to the job server
  if (here == demand.ranks) {
    demand.tasks = job.tasks;
    demand.bytes = job.bytes;
    demand.bytes_for = job.bytes_for;
  } else {
    demand.open_files += 1;  // ssh's input
  }
  return demand;
}

Allowance allowance(const std::string& root) {
  Allowance allowed;
  const auto tasks_at_most = [&allowed](uint64_t tasks, std::string by) {
    if (tasks >= allowed.tasks) return;
    allowed.tasks = tasks;
    allowed.tasks_by = std::move(by);
  };
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bound_by_user_limit(root)) {
    tasks_at_most(less(limit.rlim_cur, tasks_of_user(root)),
                  fmt::format("RLIMIT_NPROC (ulimit -u), {}", limit.rlim_cur));
  }
  tasks_at_most(tasks_left(root), "a control group's pids.max");
  for (const char* const name : {"pid_max", "threads-max"}) {
    const uint64_t most = first_number(root + "/proc/sys/kernel/" + name);
    if (most == 0) continue;  // the limit cannot be read
    tasks_at_most(less(most, tasks_of_all(root)), fmt::format("the system's kernel.{}, {}", name, most));
  }
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) allowed.open_files = limit.rlim_max;
  allowed.bytes = available_memory(root);
  return allowed;
}

void check_fits(const Demand& demand, const Allowance& allowed) {
  const uint64_t other_tasks = kLauncherTasks + demand.connections, other_files = kLauncherFiles + demand.connections;
  if (demand.ranks * demand.tasks + other_tasks > allowed.tasks) {
    throw_error(Code::SystemError,
                "{} ranks are at least {} processes and threads; {}, leaves {}: {} ranks at most, or raise it",
                demand.ranks, demand.ranks * demand.tasks, allowed.tasks_by, allowed.tasks,
                less(allowed.tasks, other_tasks) / demand.tasks);
  }
  if (demand.ranks * demand.open_files + other_files > allowed.open_files) {
    throw_error(
        Code::SystemError,
        "for {} ranks the launcher needs {} open files; RLIMIT_NOFILE (ulimit -Hn) allows {}: {} ranks at most, "
        "or raise it",
        demand.ranks, demand.ranks * demand.open_files + other_files, allowed.open_files,
        less(allowed.open_files, other_files) / demand.open_files);
  }
  if (demand.bytes > 0 && demand.ranks > allowed.bytes / demand.bytes) {
    constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
    const auto each = static_cast<double>(demand.bytes);
    throw_error(
        Code::OutOfMemory,
        "{} ranks take at least {:.1f} GiB of memory, {:.1f} MiB each for {}; {:.1f} GiB are free here: {} ranks "
        "at most, or let each take less",
        demand.ranks, static_cast<double>(demand.ranks) * each / kGiB, each / kMiB, demand.bytes_for,
        static_cast<double>(allowed.bytes) / kGiB, allowed.bytes / demand.bytes);
  }
}

OpenFiles::OpenFiles(const Demand& demand) {
  if (getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
  rlimit wanted = before_;
  wanted.rlim_cur =
      std::min<rlim_t>(before_.rlim_max, demand.ranks * demand.open_files + kLauncherFiles + demand.connections);
  if (wanted.rlim_cur > before_.rlim_cur) setrlimit(RLIMIT_NOFILE, &wanted);
}

}  // namespace tutti::tools
