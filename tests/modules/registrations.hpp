// A registration cache, as a transport over a device has one behind Transport::register_memory.
#pragma once

#include <cstdint>
#include <list>

#include "transports/transport.hpp"

namespace tutti::transports::push {

/// The device of this example has kEntries registrations. Those that nobody uses stay, until another needs the room.
/// They pin nothing, so it does no harm that their memory may be gone: a real cache watches for that.
class Registrations {
 public:
  static constexpr size_t kEntries = 16;

  Registration acquire(const void* data, uint64_t bytes, MemoryUse use);

 private:
  struct Entry {
    uintptr_t begin;
    uint64_t bytes;
    MemoryUse use;
    std::shared_ptr<int> handle = std::make_shared<int>();
    bool in_use() const { return handle.use_count() > 1; }
  };
  std::list<Entry> entries_;  // the last used first
};

}  // namespace tutti::transports::push
