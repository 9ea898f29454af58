// The last accesses to each element of memory: enough to find every pair of unordered ones (FastTrack; Flanagan &
// Freund, PLDI 2009).
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::proof {

/// What a thread did at a time, which counts its actions from 1.
struct MemoryAccess {
  uint32_t thread = 0;
  uint32_t time = 0;
};

/// What each thread knows of the others' time: Lamport's happens-before in vector clocks.
class Clocks {
 public:
  explicit Clocks(size_t threads) : clocks_(threads, std::vector<uint32_t>(threads)) {}
  void tick(uint32_t thread) { ++clocks_[thread][thread]; }
  uint32_t time(uint32_t thread) const { return clocks_[thread][thread]; }
  bool knows(uint32_t thread, MemoryAccess access) const { return clocks_[thread][access.thread] >= access.time; }
  const std::vector<uint32_t>& of(uint32_t thread) const { return clocks_[thread]; }
  void learn(uint32_t thread, const std::vector<uint32_t>& from) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (clocks_[thread][i] < from[i]) clocks_[thread][i] = from[i];
    }
  }

 private:
  std::vector<std::vector<uint32_t>> clocks_;
};

class AccessLog {
 public:
  AccessLog(const Clocks& clocks, size_t places) : clocks_(clocks), writes_(places), reads_(places) {}

  /// The access that is not ordered before this one; null: none. Then it is noted.
  const MemoryAccess* read(size_t place, MemoryAccess by) {
    if (!ordered(writes_[place], by)) return &writes_[place];
    for (MemoryAccess& other : reads_[place]) {
      if (other.thread == by.thread) return other = by, nullptr;
    }
    reads_[place].push_back(by);
    return nullptr;
  }
  const MemoryAccess* write(size_t place, MemoryAccess by) {
    if (!ordered(writes_[place], by)) return &writes_[place];
    for (const MemoryAccess& other : reads_[place]) {
      if (!ordered(other, by)) return &other;
    }
    reads_[place].clear();
    writes_[place] = by;
    return nullptr;
  }

 private:
  bool ordered(MemoryAccess before, MemoryAccess now) const {
    return before.time == 0 || clocks_.knows(now.thread, before);
  }

  const Clocks& clocks_;
  std::vector<MemoryAccess> writes_;
  std::vector<std::vector<MemoryAccess>> reads_;
};

}  // namespace tutti::proof
