// Multicast objects: devices of one or several processes, each with memory of its own, and addresses that stand for the
// same place of all.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "memory.hpp"

namespace fake {

/// What the processes that have an object share; in its memfd.
struct TeamPage {
  static constexpr uint32_t kMax = 32;
  struct Member {
    std::atomic<int> process;  ///< 0: nothing is bound
    int fd;                    ///< of its memory, there
  };
  std::atomic<uint32_t> devices;  ///< wanted
  std::atomic<uint32_t> added;    ///< devices, as bits
  Member members[kMax];
};

class Team {
 public:
  /// `fd`: the object's memfd, whose page for this is at `offset`.
  Team(int fd, size_t offset, size_t bytes);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  TeamPage& page() { return *page_; }
  bool is_complete() const;
  bool has(int device) const { return (page_->added.load() >> device & 1) != 0; }
  void bind(const std::shared_ptr<Physical>& memory);
  /// False: this process has bound nothing of that device.
  bool unbind(int device);
  /// Where the byte at `offset` is in the memory of each device; 0: some device has bound none.
  uint32_t places(size_t offset, size_t bytes, void** places);

 private:
  unsigned char* memory_of(uint32_t device);
  TeamPage* page_;
  const size_t bytes_;
  unsigned char* seen_[TeamPage::kMax] = {};         // members' memory, as it is mapped here
  std::shared_ptr<Physical> bound_[TeamPage::kMax];  // by this process: until it is unbound, or the object is gone
};

/// The places that a multicast address stands for, of which `device` accesses so many bytes; 0: it may not.
uint32_t multicast_places(const void* address, size_t bytes, int device, void** places);

}  // namespace fake
