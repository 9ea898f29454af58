#include "tools/perf/guarded_buffer.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/format.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kPage = 4096;

std::byte guard_byte(size_t at) { return static_cast<std::byte>(0x5a ^ (at * 7)); }

std::byte* allocate(size_t bytes, GuardedBuffer::Kind kind) {
  if (kind == GuardedBuffer::Kind::Plain) return static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
  void* memory = nullptr;
  check(tuttiMemAlloc(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

}  // namespace

void GuardedBuffer::Free::operator()(std::byte* memory) const {
  kind == Kind::Plain ? std::free(memory) : static_cast<void>(tuttiMemFree(memory));
}

GuardedBuffer::GuardedBuffer(size_t capacity, Kind kind) : capacity_(capacity), memory_(nullptr, Free{kind}) {
  if (capacity > SIZE_MAX - 3 * kPage) throw_error(Code::OutOfMemory, "there are no buffers of {} bytes", capacity);
  const size_t total = (kPage + capacity + kGuard + kPage - 1) / kPage * kPage;
  memory_.reset(allocate(total, kind));
  if (!memory_) throw_error(Code::OutOfMemory, "a buffer of {} bytes cannot be had; try smaller sizes", capacity);
  data_ = memory_.get() + kPage;
  arm(0);
}

void GuardedBuffer::arm(size_t bytes) {
  if (bytes > capacity_) throw std::length_error("a guarded buffer holds no more than its capacity");
  size_ = bytes;
  for (size_t i = 0; i < kGuard; ++i) {
    data_[-static_cast<ptrdiff_t>(i) - 1] = guard_byte(i);
    data_[size_ + i] = guard_byte(i);
  }
  std::memset(data_, 0xff, size_);
}

size_t GuardedBuffer::damaged() const {
  size_t changed = 0;
  for (size_t i = 0; i < kGuard; ++i) {
    changed += static_cast<size_t>(data_[-static_cast<ptrdiff_t>(i) - 1] != guard_byte(i));
    changed += static_cast<size_t>(data_[size_ + i] != guard_byte(i));
  }
  return changed;
}

}  // namespace tutti::tools
