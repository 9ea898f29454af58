// Buffers that peers can read in place: tuttiMemAlloc.
#pragma once

#include <cstdint>

namespace tutti::comm {

enum class BufferKind : uint8_t {
  Any,     ///< ordinary memory where peers need not or cannot map it (link/mapped_memory.hpp says where)
  Mapped,  ///< memory that peers can map, or an error
  Device,  ///< memory of the device that the calling thread uses, not zeroed
};

/// Zeroed, aligned to 2 MiB. Throws Error(OutOfMemory).
void* allocate_buffer(uint64_t bytes, BufferKind kind);
/// Throws Error(InvalidArgument) for an address that allocate_buffer has not returned, and Error(InvalidUsage) where a
/// window has it.
void free_buffer(void* buffer);

}  // namespace tutti::comm
