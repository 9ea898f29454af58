#include "control/parked_threads.hpp"

#include <dirent.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::control {
namespace {

std::vector<pid_t> threads_of_this_process() {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/task"), closedir);
  if (all == nullptr) return threads;
  while (const dirent* entry = readdir(all.get())) {  // NOLINT(concurrency-mt-unsafe): no other thread uses this DIR
    if (entry->d_name[0] != '.') threads.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  }
  return threads;
}

/// True if only this process can wake a futex at this address.
bool is_private(uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    char* end = nullptr;
    const uint64_t from = std::strtoull(line.c_str(), &end, 16);
    if (*end != '-') return false;
    const uint64_t to = std::strtoull(end + 1, &end, 16);
    if (address >= from && address < to)
      return line.size() > static_cast<size_t>(end + 4 - line.c_str()) && end[4] == 'p';
  }
  return false;
}

/// True if the thread sleeps in a futex wait without a time limit. The file lists the system call's number and its six
/// arguments.
bool parked(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
  uint64_t words[5] = {};  // number, address, operation, value, time limit
  std::string word;
  for (uint64_t& w : words) {
    if (!(file >> word)) return false;  // "running", or not readable
    char* end = nullptr;
    w = std::strtoull(word.c_str(), &end, 0);
    if (*end != '\0') return false;
  }
  const uint64_t operation = words[2] & FUTEX_CMD_MASK;
  if (words[0] != SYS_futex || words[4] != 0) return false;
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return false;
  return (words[2] & FUTEX_PRIVATE_FLAG) != 0 || is_private(words[1]);
}

/// How often the thread has stopped running; empty if that cannot be read.
std::optional<uint64_t> switches(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  uint64_t sum = 0;
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("voluntary_ctxt_switches:") == std::string::npos) continue;  // with "non" before it, or without
    sum += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
    ++found;
  }
  return found == 2 ? std::optional(sum) : std::nullopt;
}

}  // namespace

std::optional<ParkedThreads> read_threads(std::span<const pid_t> threads) {
  ParkedThreads look;
  const auto all = threads_of_this_process();
  if (all.empty()) return std::nullopt;
  for (const pid_t thread : all) {
    if (std::find(threads.begin(), threads.end(), thread) != threads.end()) continue;
    const auto stops = switches(thread);  // before parked(): what it does in between is counted at the next look
    if (!stops || !parked(thread)) return std::nullopt;
    look.emplace(thread, *stops);
  }
  return look;
}

bool all_parked_but(std::span<const pid_t> threads) {
  const auto first = read_threads(threads);
  return first && read_threads(threads) == first;
}

}  // namespace tutti::control
