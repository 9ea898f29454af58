#include "link/mapped_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/bytes.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "topo/cgroup.hpp"
#include "topo/constants.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kAlignment = uint64_t{2} << 20;  // a huge page, where the machine has them

uint64_t whole_pages(uint64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

[[noreturn]] void throw_no_memory(uint64_t bytes, int error) {
  throw_error(Code::OutOfMemory, "cannot allocate {} bytes: {}", bytes, std::strerror(error));
}

/// An aligned, unmapped address range of `bytes` bytes.
unsigned char* reserve(uint64_t bytes) {
  const uint64_t length = bytes + kAlignment;
  void* const base = ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw_no_memory(bytes, errno);
  auto* const begin = static_cast<unsigned char*>(base);
  const uintptr_t address = reinterpret_cast<uintptr_t>(base);
  const uint64_t before = (kAlignment - address % kAlignment) % kAlignment, after = kAlignment - before;
  if (before > 0) ::munmap(begin, before);
  if (after > 0) ::munmap(begin + before + bytes, after);
  return begin + before;
}

/// The file that peers map; empty when no descriptor is left, or the system allows no file of that size.
Fd make_file(uint64_t bytes) {
  if (bytes > available_memory()) throw_no_memory(bytes, ENOMEM);
  Fd fd = make_memory_file("tutti-memory", bytes, Reserve::Keep);
  if (fd) return fd;
  const int error = errno;
  if (error == ENOMEM || error == ENOSPC) throw_no_memory(bytes, error);
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    log_warn(
        "tuttiMemAlloc: cannot allocate {} bytes that peers can map: {}. Such memory is ordinary memory from now on, "
        "which is slower between processes{}",
        bytes, system_words(error),
        out_of_descriptors(error) ? fmt::format(". Each block takes a descriptor; the last {} are reserved for the "
                                                "program and connections",
                                                descriptor_reserve())
                                  : "");
  }
  return fd;
}

}  // namespace

uint64_t page_bytes() {
  static const auto kBytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

bool is_mapped(const void* memory, uint64_t bytes) {
  if (bytes == 0) return true;
  const auto begin = reinterpret_cast<uintptr_t>(memory) / page_bytes() * page_bytes();
  const auto end = reinterpret_cast<uintptr_t>(memory) + bytes;
  return ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

SharedMemory& SharedMemory::of_this_process() {
  static auto* const kAll = new SharedMemory;  // never destroyed: threads may outlive main()
  return *kAll;
}

void* SharedMemory::allocate(uint64_t bytes, Kind kind) {
  if (bytes > UINT64_MAX / 4) throw_no_memory(bytes, ENOMEM);
  const uint64_t length = std::max(page_bytes(), whole_pages(bytes));
  Fd fd = kind == Kind::Any && bytes < machine_constants().zcopy_from ? Fd() : make_file(length);
  if (kind == Kind::Mapped && !fd) {
    throw_error(Code::OutOfMemory, "{} bytes that peers can map cannot be had (the reason was logged)", bytes);
  }
  unsigned char* const base = reserve(length);
  const int mapping = fd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (::mmap(base, length, PROT_READ | PROT_WRITE, mapping | MAP_FIXED, fd ? fd.get() : -1, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(base, length);
    throw_no_memory(bytes, error);
  }
  ::madvise(base, length, MADV_HUGEPAGE);  // a hint: without huge pages it stays ordinary memory
  const std::lock_guard lock(mutex_);
  Region& region = regions_[reinterpret_cast<uintptr_t>(base)];
  region = {fd ? ++last_id_ : 0, bytes, length, ::getpid(), std::move(fd), {}};
  generation_.fetch_add(1, std::memory_order_release);
  return base;
}

void SharedMemory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == regions_.end()) throw_error(Code::InvalidArgument, "{} did not come from tuttiMemAlloc", memory);
  const Region& region = found->second;
  if (region.fd && region.process == ::getpid()) {
    ::fallocate(region.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(region.bytes));
  }
  ::munmap(memory, region.bytes);
  regions_.erase(found);
  generation_.fetch_add(1, std::memory_order_release);
}

uint64_t SharedMemory::bytes_of(const void* memory) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(reinterpret_cast<uintptr_t>(memory));
  return found == regions_.end() ? 0 : found->second.bytes;
}

SharedRegion SharedMemory::find(const void* data, uint64_t bytes) const {
  if (generation() == kFirstGeneration) return {};
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(mutex_);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return {};
  const auto& [base, region] = *std::prev(after);
  const uint64_t offset = address - base;
  if (region.id == 0 || offset > region.bytes || bytes > region.bytes - offset) return {};
  const uint64_t end = offset + bytes;
  const bool renewed = std::any_of(region.renewed.begin(), region.renewed.end(),
                                   [&](const auto& gone) { return gone.first < end && offset < gone.second; });
  if (renewed) return {};
  const auto* const begin = reinterpret_cast<const unsigned char*>(base);
  const uint64_t last = end >= region.requested
                            ? region.bytes
                            : end / page_bytes() * page_bytes();  // the rest of the last page holds nothing else
  return {region.id, begin, begin + whole_pages(offset), begin + last};
}

bool SharedMemory::renew(const unsigned char* begin, const unsigned char* end) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const auto bytes = static_cast<uint64_t>(end - begin);
  const std::lock_guard lock(mutex_);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  auto& [base, region] = *std::prev(after);
  const uint64_t offset = address - base;
  if (!region.fd || offset % page_bytes() != 0 || bytes % page_bytes() != 0) return false;
  if (offset > region.bytes || bytes > region.bytes - offset || region.process != ::getpid()) return false;
  constexpr int kKind = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  auto* const pages = reinterpret_cast<void*>(address);
  if (::mmap(pages, bytes, PROT_READ | PROT_WRITE, kKind, -1, 0) == MAP_FAILED) return false;
  ::madvise(pages, bytes, MADV_HUGEPAGE);
  ::fallocate(region.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));  // a peer's store there allocates a page again
  region.renewed.emplace_back(offset, offset + bytes);
  generation_.fetch_add(1, std::memory_order_release);
  return true;
}

SharedMemory::Exported SharedMemory::export_region(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [base, region] : regions_) {
    if (id != 0 && region.id == id) return {Fd(::fcntl(region.fd.get(), F_DUPFD_CLOEXEC, 0)), region.bytes};
  }
  return {};
}

uint64_t SharedMemory::mappable_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [base, region] : regions_) bytes += region.id != 0 ? region.bytes : 0;
  return bytes;
}

}  // namespace tutti::link
