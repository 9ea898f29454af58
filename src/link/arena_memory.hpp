// Memory for the arenas of ranks, of the kinds that transports need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/fd.hpp"
#include "link/segment.hpp"

namespace tutti::link {

/// Zeroed memory for the arena of a rank.
struct ArenaMemory {
  std::shared_ptr<const void> owner;  ///< keeps it
  unsigned char* base = nullptr;
  std::function<void(uint64_t offset, uint64_t bytes)> commit;  ///< as Segment::commit; null: all is allocated
  std::shared_ptr<const Fd> file;                               ///< that peers map; null: none
  uint64_t offset = 0;                                          ///< of the arena in the file
  std::function<void()> when_peers_are_done;                    ///< to be called then; null: nothing
};

/// Memory that no other process maps. Throws Error(OutOfMemory).
ArenaMemory private_memory(uint64_t bytes);
/// Memory that processes of the host map. Throws as SegmentFiles::cut does.
ArenaMemory shared_memory(uint64_t bytes, SegmentFiles& files);

}  // namespace tutti::link
