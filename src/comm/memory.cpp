#include "comm/memory.hpp"

#include "control/host.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::comm {

void* allocate_buffer(uint64_t bytes, BufferKind kind) {
  using Kind = link::SharedMemory::Kind;
  return control::on_this_host([&] {
    return link::SharedMemory::of_this_process().allocate(bytes, kind == BufferKind::Mapped ? Kind::Mapped : Kind::Any);
  });
}

void free_buffer(void* buffer) { link::SharedMemory::of_this_process().release(buffer); }

}  // namespace tutti::comm
