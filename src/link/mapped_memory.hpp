// Memory of this process that others of the host may map: what tuttiMemAlloc returns. A message that lies in it is read
// by its receivers where it lies, without a copy in between and without the kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "link/link.hpp"

namespace tutti::link {

/// Bytes of a page.
uint64_t page_bytes();

/// All such memory of this process. Thread-safe.
class SharedMemory {
 public:
  static SharedMemory& of_this_process();

  /// Zeroed, aligned to 2 MiB; all of it is there at once. Throws Error(OutOfMemory). Little memory, which messages are
  /// copied from anyway, and any where no descriptor can be spared for it (base/limits.hpp) or files may not be as
  /// large, is like any other, which calls can use too.
  /// Kind::Mapped: it is memory that peers can map, or an error.
  enum class Kind : uint8_t { Any, Mapped };
  void* allocate(uint64_t bytes, Kind kind = Kind::Any);
  /// Throws Error(InvalidArgument) for what `allocate` has not returned. Others may have it mapped still: its pages go
  /// back to the system all the same; but in a forked child nothing happens to its parent's.
  void release(void* memory);

  /// The region that holds all `bytes` bytes at `data`, for others to map; of id 0 where none does.
  SharedRegion find(const void* data, uint64_t bytes) const;
  /// Puts other pages where the whole pages [begin, end) of one region are. Whoever has the region mapped keeps the old
  /// ones, and what it stores there is not seen here. Nothing of what stood there is kept, nobody can map what is there
  /// now, and no other page is touched, so it does not matter who uses them meanwhile. False where the system refuses.
  bool renew(const unsigned char* begin, const unsigned char* end);
  /// Another one after every `allocate`, `release` and `renew`: what `find` said before may not be true any more.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  /// What another process maps; an empty descriptor where there is no such region.
  struct Given {
    Fd fd;
    uint64_t bytes = 0;
  };
  Given give(uint64_t id) const;

 private:
  struct Region {
    uint64_t id = 0;     // 0: nobody can map it
    uint64_t asked = 0;  // bytes that were asked for,
    uint64_t bytes = 0;  // and in whole pages
    int process = 0;     // that allocated it
    Fd fd;
    std::vector<std::pair<uint64_t, uint64_t>> renewed;  // [begin, end): not in the file any more
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Region> regions_;  // by where they begin
  uint64_t last_id_ = 0;
  static constexpr uint64_t kNothingYet = 1;
  std::atomic<uint64_t> generation_{kNothingYet};
};

/// A peer's shared memory as this process has it mapped.
class PeerMappings {
 public:
  virtual ~PeerMappings() = default;
  /// Where `bytes` bytes from `offset` on of the peer's region `id` are here; null, and why (an errno), where they
  /// cannot be had. May ask the peer's control thread, the first time.
  virtual unsigned char* find(uint64_t id, uint64_t offset, uint64_t bytes, int& error) = 0;
};

}  // namespace tutti::link
