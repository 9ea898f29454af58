#include "topo/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tutti {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kNoLimitInVersion1 = uint64_t{1} << 60;  // it writes the largest number of whole pages
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The number after `key` in a file of "key value" lines; with an empty key, the file's first word. `otherwise` if
/// there is no number ("max" is not one).
uint64_t number_in(const std::string& file, const std::string& key, uint64_t otherwise) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    uint64_t value = 0;
    return words >> value ? value : otherwise;
  }
  return otherwise;
}

/// Bytes that the control group in `folder` still allows.
uint64_t left_in(const std::string& folder, const char* limit_file, const char* usage_file) {
  const uint64_t limit = number_in(folder + limit_file, "", kUnlimited);
  if (limit >= kNoLimitInVersion1) return kUnlimited;
  const uint64_t used = number_in(folder + usage_file, "", 0);
  const std::string stat = folder + "/memory.stat";
  const uint64_t cache = number_in(stat, "inactive_file", 0) + number_in(stat, "active_file", 0);
  const uint64_t kept = used - std::min(used, cache);
  return limit - std::min(limit, kept);
}

/// The cores' worth of time that the control group in `folder` allows.
double quota_in(const std::string& folder, bool second_version) {
  std::ifstream max(folder + (second_version ? "/cpu.max" : "/cpu.cfs_quota_us"));
  double quota = 0, period = 0;
  if (!(max >> quota) || quota <= 0) return kNoLimit;  // "max" is not a number; -1 means no limit
  if (second_version) {
    max >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return period > 0 ? quota / period : kNoLimit;
}

/// True if `word` is in this comma-separated list.
bool lists(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

/// Calls visit(folder, is version 2) for each control group of this process that has `controller`, and for its
/// ancestors.
template <class Visit>
void each_group(const std::string& root, const std::string& controller, Visit&& visit) {
  std::ifstream groups(root + "/proc/self/cgroup");  // lines of number:controllers:/path
  for (std::string line; std::getline(groups, line);) {
    const size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    const bool second = line.rfind("0:", 0) == 0;
    const size_t controllers = line.find(':') + 1;
    if (!second && (controllers > path || !lists(line.substr(controllers, path - controllers), controller))) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (second ? "" : "/" + controller);
    std::string group = line.substr(path + 1) == "/" ? "" : line.substr(path + 1);
    while (true) {
      visit(mount + group, second);
      if (group.empty()) break;
      group.resize(std::min(group.find_last_of('/'), group.size()));
    }
  }
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  const uint64_t kib = number_in(root + "/proc/meminfo", "MemAvailable:", kUnlimited);
  uint64_t least = kib == kUnlimited ? kib : kib * 1024;
  each_group(root, "memory", [&](const std::string& folder, bool second) {
    least = std::min(least, second ? left_in(folder, "/memory.max", "/memory.current")
                                   : left_in(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
  });
  return least;
}

uint64_t memory_limit(const std::string& root) {
  uint64_t least = kUnlimited;
  each_group(root, "memory", [&](const std::string& folder, bool second) {
    const char* const file = second ? "/memory.max" : "/memory.limit_in_bytes";
    least = std::min(least, number_in(folder + file, "", kUnlimited));
  });
  return least < kNoLimitInVersion1 ? least : kUnlimited;
}

uint64_t tasks_left(const std::string& root) {
  uint64_t least = kUnlimited;
  each_group(root, "pids", [&](const std::string& folder, bool) {
    const uint64_t limit = number_in(folder + "/pids.max", "", kUnlimited);
    if (limit == kUnlimited) return;
    least = std::min(least, limit - std::min(limit, number_in(folder + "/pids.current", "", 0)));
  });
  return least;
}

double core_quota(const std::string& root) {
  double least = kNoLimit;
  each_group(root, "cpu",
             [&](const std::string& folder, bool second) { least = std::min(least, quota_in(folder, second)); });
  return least;
}

}  // namespace tutti
