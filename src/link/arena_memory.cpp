#include "link/arena_memory.hpp"

#include <sys/mman.h>

#include "base/format.hpp"

namespace tutti::link {

ArenaMemory private_memory(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_error(Code::OutOfMemory, "no {} bytes for this rank's arena (TUTTI_ARENA)", bytes);
  ArenaMemory made;
  made.owner = std::shared_ptr<const void>(memory, [memory, bytes](const void*) { munmap(memory, bytes); });
  made.base = static_cast<unsigned char*>(memory);
  return made;
}

ArenaMemory shared_memory(uint64_t bytes, SegmentFiles& files) {
  const auto segment = std::make_shared<const Segment>(files.cut(bytes));
  return {.owner = segment,
          .base = segment->base(),
          .commit = [segment](uint64_t offset, uint64_t size) { segment->commit(offset, size); },
          .file = segment->file(),
          .offset = segment->offset(),
          .when_peers_are_done = segment->when_peers_are_done()};
}

}  // namespace tutti::link
