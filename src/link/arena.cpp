#include "link/arena.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kStep = 64 << 10;  // bytes that become usable at a time, at least

}  // namespace

unsigned char* Arena::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t rounded = (bytes + kStride - 1) / kStride * kStride;
  if (rounded > links_ - staging_bytes()) {
    throw_error(Code::OutOfMemory, "no room for another link in this rank's arena of {} bytes; raise TUTTI_ARENA",
                bytes_);
  }
  const uint64_t begin = links_ - rounded;
  if (begin < usable_links_ && commit_) {
    const uint64_t from = std::max(begin / kStep * kStep, staging_bytes());
    commit_(from, usable_links_ - from);
    usable_links_ = from;
  }
  links_ = begin;
  return base_ + links_;
}

void Arena::use_staging(uint64_t bytes) {
  if (bytes <= usable_staging_ || !commit_) return;
  const uint64_t end = std::min((bytes + kStep - 1) / kStep * kStep, staging_bytes());
  commit_(usable_staging_, end - usable_staging_);
  usable_staging_ = end;
}

}  // namespace tutti::link
