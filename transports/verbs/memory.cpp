#include "transports/verbs/memory.hpp"

#include <sys/mman.h>

#include "base/format.hpp"
#include "base/log.hpp"

namespace tutti::transports::verbs {

void FreePages::operator()(unsigned char* data) const { ::munmap(data, bytes); }

Buffer::Buffer(Nic& nic, uint64_t bytes, RegionUse use) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_error(Code::OutOfMemory, "verbs: no memory for a buffer of {} bytes", bytes);
  data = {static_cast<unsigned char*>(memory), FreePages{bytes}};
  region = nic.register_memory(memory, bytes, use);
}

Memory::Memory(Nic& nic, unsigned char* arena, uint64_t arena_bytes) {
  if (arena_bytes == 0) return;
  try {
    regions_.emplace_back(nic.register_memory(arena, arena_bytes, RegionUse::Send));
  } catch (const Error& error) {  // its messages go through bounce buffers
    log_warn("verbs: {}; staged messages are copied once more", error.what());
  }
}

std::shared_ptr<const Region> Memory::find(const void* data, uint64_t bytes) const {
  const auto begin = reinterpret_cast<uint64_t>(data);
  for (const auto& region : regions_) {
    if (begin >= region->address && bytes <= region->bytes && begin - region->address <= region->bytes - bytes) {
      return region;
    }
  }
  return nullptr;
}

}  // namespace tutti::transports::verbs
