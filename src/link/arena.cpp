#include "link/arena.hpp"

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::link {

unsigned char* Arena::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t rounded = (bytes + kStride - 1) / kStride * kStride;
  if (rounded > links_ - staging_bytes()) {
    throw_error(Code::OutOfMemory, "no room for another link in this rank's arena of {} bytes; raise TUTTI_ARENA",
                bytes_);
  }
  links_ -= rounded;
  return base_ + links_;
}

}  // namespace tutti::link
