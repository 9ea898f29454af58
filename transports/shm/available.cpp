#include "transports/shm/available.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tutti::transports {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// The number after `key` in a file of "key value" lines; with an empty key, the file's first word. `otherwise` where
/// there is none ("max" is none).
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

/// What the control group in `folder` leaves.
uint64_t left_in(const std::string& folder, const char* limit_file, const char* usage_file) {
  const uint64_t limit = number_in(folder + limit_file, "", kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = number_in(folder + usage_file, "", 0);
  const std::string stat = folder + "/memory.stat";
  const uint64_t cache = number_in(stat, "inactive_file", 0) + number_in(stat, "active_file", 0);
  const uint64_t kept = used - std::min(used, cache);
  return limit - std::min(limit, kept);
}

/// The least that `group` or one of those above it leaves.
uint64_t left_on_path(const std::string& mount, std::string group, const char* limit_file, const char* usage_file) {
  uint64_t least = kUnlimited;
  while (true) {
    least = std::min(least, left_in(mount + group, limit_file, usage_file));
    if (group.empty()) return least;
    group.resize(std::min(group.find_last_of('/'), group.size()));
  }
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  const uint64_t kib = number_in(root + "/proc/meminfo", "MemAvailable:", kUnlimited);
  uint64_t least = kib == kUnlimited ? kib : kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines of number:controllers:/path
  for (std::string line; std::getline(groups, line);) {
    const size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    const std::string group = line.substr(path + 1) == "/" ? "" : line.substr(path + 1);
    if (line.rfind("0:", 0) == 0) {
      least = std::min(least, left_on_path(root + "/sys/fs/cgroup", group, "/memory.max", "/memory.current"));
    } else if (line.find(":memory:") != std::string::npos) {
      const std::string mount = root + "/sys/fs/cgroup/memory";
      least = std::min(least, left_on_path(mount, group, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
    }
  }
  return least;
}

}  // namespace tutti::transports
