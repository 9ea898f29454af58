// The C interface's memory: allocation.
#include "base/format.hpp"
#include "capi/handles.hpp"
#include "link/mapped_memory.hpp"

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
    const auto kind =
        (flags & TUTTI_MEM_MAPPED) != 0 ? link::SharedMemory::Kind::Mapped : link::SharedMemory::Kind::Any;
    *pointer = control::on_this_host([&] { return link::SharedMemory::of_this_process().allocate(bytes, kind); });
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return guarded([&] {
    if (pointer != nullptr) link::SharedMemory::of_this_process().release(pointer);
  });
}
