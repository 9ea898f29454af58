// Memory of this process that other processes of the host can map: what tuttiMemAlloc returns. Receivers read a message
// in it in place, without a staging copy and without a system call.
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
/// The pages of these bytes are there: the program has not unmapped them. (Memory that it has freed and that is mapped
/// still, or again, looks the same.)
bool is_mapped(const void* memory, uint64_t bytes);

/// Which of a rank's buffers its peers can read.
class Regions {
 public:
  virtual ~Regions() = default;
  /// The region that holds all `bytes` bytes at `data`; id 0 if there is none.
  virtual SharedRegion find(const void* data, uint64_t bytes) const = 0;
  /// Changes when earlier results of `find` may be outdated.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 protected:
  static constexpr uint64_t kFirstGeneration = 1;
  std::atomic<uint64_t> generation_{kFirstGeneration};
};

/// All mappable memory of this process: what `allocate`, `release` and `renew` do changes the generation. Thread-safe.
class SharedMemory final : public Regions {
 public:
  static SharedMemory& of_this_process();

  /// Zeroed, aligned to 2 MiB, allocated completely. Throws Error(OutOfMemory). The result is ordinary memory, which
  /// peers cannot map, for small blocks (their messages are copied anyway), when no descriptor is left
  /// (base/limits.hpp), and when files may not be so large.
  /// Kind::Mapped: memory that peers can map, or an error.
  enum class Kind : uint8_t { Any, Mapped };
  void* allocate(uint64_t bytes, Kind kind = Kind::Any);
  /// Returns the pages to the system, even while peers have them mapped; a forked child leaves its parent's pages
  /// alone. Throws Error(InvalidArgument) for an address that `allocate` has not returned.
  void release(void* memory);

  SharedRegion find(const void* data, uint64_t bytes) const override;
  /// Bytes of the block that `allocate` has returned; 0 if that is none.
  uint64_t bytes_of(const void* memory) const;
  /// Replaces the pages [begin, end) of one region by new, zeroed pages that no peer can map. A peer that has the
  /// region mapped keeps the old pages, and its stores are not seen here. No other page is touched. False if the system
  /// refuses.
  bool renew(const unsigned char* begin, const unsigned char* end);

  /// What another process maps; the descriptor is empty if there is no such region.
  struct Exported {
    Fd fd;
    uint64_t bytes = 0;
  };
  Exported export_region(uint64_t id) const;
  /// Bytes that peers can map, of all regions.
  uint64_t mappable_bytes() const;

 private:
  struct Region {
    uint64_t id = 0;         // 0: peers cannot map it
    uint64_t requested = 0;  // bytes
    uint64_t bytes = 0;      // rounded up to whole pages
    int process = 0;         // that allocated it
    Fd fd;
    std::vector<std::pair<uint64_t, uint64_t>> renewed;  // [begin, end): not backed by the file any more
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Region> regions_;  // by address
  uint64_t last_id_ = 0;
};

/// A peer's regions that this process has mapped.
class PeerMappings {
 public:
  virtual ~PeerMappings() = default;
  /// The address in this process of `bytes` bytes at `offset` of the peer's region `id`; null, and an errno in `error`,
  /// if they cannot be mapped. May ask the peer's control thread the first time.
  virtual unsigned char* find(uint64_t id, uint64_t offset, uint64_t bytes, int& error) = 0;
};

}  // namespace tutti::link
