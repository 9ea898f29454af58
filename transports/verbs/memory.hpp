// Registered memory of one rank: buffers of the engine, and the registrations of others' memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transports/transport.hpp"
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

/// Finds the registration of an address.
class Memory {
 public:
  /// `arena` is registered for sending at once, if it can be.
  Memory(Nic& nic, unsigned char* arena, uint64_t arena_bytes);

  /// The region that holds all `bytes` bytes at `data`; null: none does.
  std::shared_ptr<const Region> find(const void* data, uint64_t bytes) const;

 private:
  std::vector<std::shared_ptr<const Region>> regions_;
};

}  // namespace tutti::transports::verbs
