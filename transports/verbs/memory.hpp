// Registered memory of one rank: buffers of the engine, and a cache of the registrations of users' memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transports/transport.hpp"
#include "transports/verbs/device_memory.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

struct FreePages {
  uint64_t bytes = 0;
  void operator()(unsigned char* data) const;
};

/// Zeroed, page-aligned, registered memory of the engine itself.
struct Buffer {
  std::unique_ptr<unsigned char, FreePages> data;
  std::unique_ptr<Region> region;

  Buffer() = default;
  /// Throws Error(OutOfMemory).
  Buffer(Nic& nic, uint64_t bytes, RegionUse use);
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&& other) noexcept {
    region = std::move(other.region);  // before its memory goes
    data = std::move(other.data);
    return *this;
  }
  uint64_t bytes() const { return region ? region->bytes : 0; }
};

/// Finds, or makes, the registration of an address. Whole pages are registered. A region lives as long as it is cached
/// or somebody holds it; it leaves the cache when its pages are unmapped (mapping_watch.hpp), or when others need room.
class Memory {
 public:
  /// `arena` is registered for sending at once, if it can be.
  Memory(Nic& nic, unsigned char* arena, uint64_t arena_bytes, ExportDevice export_device = export_device_memory);

  /// A region that has all `bytes` bytes at `data`, from which they can be sent, or (RegionUse::Data) to which the peer
  /// may write too. Null: copy them, because the message is short, or the memory cannot be watched or registered.
  std::shared_ptr<const Region> find(const void* data, uint64_t bytes, RegionUse use = RegionUse::Send);
  /// The registration that has all these bytes, if they are in a GPU's memory, from which this process cannot copy;
  /// else null.
  std::shared_ptr<const Region> find_device(const void* data, uint64_t bytes);
  /// As Transport::register_memory.
  Registration acquire(const void* data, uint64_t bytes, MemoryUse use);

  static constexpr uint64_t kRegisterFrom = uint64_t{32} << 10;  ///< bytes: shorter messages are copied
  static constexpr size_t kMaxCached = 512;

 private:
  struct Cached {
    std::shared_ptr<const Region> region;
    uint64_t used = 0;  // when, in calls of find()
  };
  void forget_unmapped();
  std::shared_ptr<const Region> find_cached(uint64_t begin, uint64_t bytes, RegionUse use);
  std::shared_ptr<const Region> find_held(uint64_t begin, uint64_t bytes, RegionUse use);
  std::shared_ptr<const Region> register_pages(uint64_t begin, uint64_t end, RegionUse use);
  void make_room();

  Nic& nic_;
  const ExportDevice export_device_;
  std::shared_ptr<const Region> arena_;
  std::map<uint64_t, Cached> cached_;  // by address; they may overlap
  /// What callers of acquire() hold.
  struct Held {
    uint64_t begin = 0, end = 0;
    std::weak_ptr<const Region> region;
  };
  std::vector<Held> held_;
  bool has_device_ = false;  // one of them is, or was, a GPU's
  uint64_t clock_ = 0;
  uint64_t longest_ = 0;  // bytes of the longest cached region ever
  uint64_t reports_ = 0;  // position in the watch's
  bool full_ = false;     // the device or the limit on locked memory takes no more
};

}  // namespace tutti::transports::verbs
