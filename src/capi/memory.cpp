// The C interface's memory: allocation.
#include "comm/memory.hpp"
#include "base/format.hpp"
#include "capi/handles.hpp"

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes) { return tuttiMemAllocWithFlags(pointer, bytes, 0); }

tuttiResult_t tuttiMemAllocWithFlags(void** pointer, size_t bytes, unsigned flags) {
  return guarded([&] {
    if (pointer == nullptr) throw Error(Code::InvalidArgument, "pointer is null");
    if ((flags & ~unsigned{TUTTI_MEM_MAPPED}) != 0) {
      throw_error(Code::InvalidArgument, "flags {:#x}: there is only TUTTI_MEM_MAPPED ({:#x})", flags,
                  TUTTI_MEM_MAPPED);
    }
    const bool mapped = (flags & TUTTI_MEM_MAPPED) != 0;
    *pointer = comm::allocate_buffer(bytes, mapped ? comm::BufferKind::Mapped : comm::BufferKind::Any);
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return guarded([&] {
    if (pointer != nullptr) comm::free_buffer(pointer);
  });
}
