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
    comm::BufferKind kind{};
    switch (flags) {
      case 0:
        kind = comm::BufferKind::Any;
        break;
      case TUTTI_MEM_MAPPED:
        kind = comm::BufferKind::Mapped;
        break;
      case TUTTI_MEM_DEVICE:
        kind = comm::BufferKind::Device;
        break;
      default:
        throw_error(Code::InvalidArgument,
                    "flags {:#x}: there are only TUTTI_MEM_MAPPED ({:#x}) and TUTTI_MEM_DEVICE ({:#x})", flags,
                    TUTTI_MEM_MAPPED, TUTTI_MEM_DEVICE);
    }
    *pointer = comm::allocate_buffer(bytes, kind);
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return guarded([&] {
    if (pointer != nullptr) comm::free_buffer(pointer);
  });
}
