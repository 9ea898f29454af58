#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "multicast.hpp"
#include "state.hpp"

namespace fake {
namespace {

constexpr size_t kRange = 256ULL << 30;

}  // namespace

uint64_t new_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Memory& memory() {
  static auto& the_memory = *new Memory;
  return the_memory;
}

// ---- physical memory --------------------------------------------------------------------------------------

Physical::Physical(int its_device, size_t its_bytes, unsigned types)
    : device(its_device), bytes(its_bytes), handle_types(types), id(new_id()), counted(true) {
  if (config().fails("no_memory", device) || memory().used[device] + bytes > config().memory) {
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  // One page more than the memory: what an exported one says of itself.
  fd = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes + kPage)) != 0) {
    if (fd >= 0) close(fd);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  memory().used[device] += bytes;
}

Physical::Physical(int its_fd, int its_device, size_t its_bytes, unsigned types)
    : device(its_device), bytes(its_bytes), handle_types(types), id(new_id()), counted(false), fd(its_fd) {}

Physical::~Physical() {
  if (counted && fd >= 0) memory().used[device] -= bytes;
  if (fd >= 0) close(fd);
}

// ---- addresses --------------------------------------------------------------------------------------------

uintptr_t Memory::reserve(size_t bytes, size_t alignment) {
  if (range_ == 0) {
    void* const at = mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    range_ = reinterpret_cast<uintptr_t>(at);
  }
  // The first gap, with a page after it that stays closed. So addresses are soon used again, as those of a GPU are.
  const auto aligned = [&](uintptr_t at) { return (at + alignment - 1) / alignment * alignment; };
  uintptr_t at = aligned(range_);
  for (const auto& [base, size] : reservations_) {
    if (at + bytes + kPage <= base) break;
    at = aligned(base + size + kPage);
  }
  if (at + bytes + kPage > range_ + kRange) return 0;
  reservations_[at] = bytes;
  return at;
}

void Memory::unreserve(uintptr_t base) { reservations_.erase(base); }

size_t Memory::reserved(uintptr_t base) const {
  const auto found = reservations_.find(base);
  return found == reservations_.end() ? 0 : found->second;
}

bool Memory::within_reservation(uintptr_t at, size_t bytes) const {
  auto after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) return false;
  --after;
  return at + bytes <= after->first + after->second;
}

Mapping& Memory::map(Mapping mapping) {
  if (!mapping.on_host()) {
    const bool open = config().open_to_host && mapping.physical->team == nullptr;
    const int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* const at = mmap(reinterpret_cast<void*>(mapping.base), mapping.bytes, protection, MAP_SHARED | MAP_FIXED,
                          mapping.physical->fd, static_cast<off_t>(mapping.offset));
    if (at == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  mapping.buffer_id = new_id();
  mapping.protection = PROT_NONE;
  changed();
  return mappings_[mapping.base] = std::move(mapping);
}

void Memory::unmap(uintptr_t base) {
  const auto found = mappings_.find(base);
  if (!found->second.on_host()) {
    mmap(reinterpret_cast<void*>(base), found->second.bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  mappings_.erase(found);
}

Mapping* Memory::find(uintptr_t at) {
  auto after = mappings_.upper_bound(at);
  if (after == mappings_.begin()) return nullptr;
  Mapping& mapping = (--after)->second;
  return at < mapping.base + mapping.asked ? &mapping : nullptr;
}

// ---- access -----------------------------------------------------------------------------------------------

// 0: none; 1: reads; 2: reads and writes.
int Memory::allowed(const Mapping& mapping, int device) const {
  if (device < 0) return 0;
  const uint32_t bit = 1U << device;
  switch (mapping.kind) {
    case Kind::Host:
    case Kind::Registered:
      return 2;
    case Kind::Vmm:
      return (mapping.writers & bit) != 0 ? 2 : (mapping.readers & bit) != 0 ? 1 : 0;
    case Kind::Pool:  // other devices' access is granted to the pool: not here
      return device == mapping.device ? 2 : 0;
    case Kind::Ipc:
      if ((mapping.writers & bit) != 0) return 2;
      [[fallthrough]];
    case Kind::Malloc:
      return device == mapping.device || (peers[device] >> mapping.device & 1) != 0 ? 2 : 0;
  }
  return 0;
}

void Memory::protect(Mapping& mapping, int protection) {
  if (mapping.on_host() || mapping.protection == protection || config().open_to_host) return;
  if (mapping.physical->team != nullptr) return;  // for multimem instructions alone
  mprotect(reinterpret_cast<void*>(mapping.base), mapping.bytes, protection);
  mapping.protection = protection;
}

void Memory::open_for(int device) {
  if (device == open_device_) return;
  constexpr int kProtection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  for (auto& [base, mapping] : mappings_) protect(mapping, kProtection[allowed(mapping, device)]);
  open_device_ = device;
}

void Memory::open(uintptr_t at, size_t bytes) {
  for (uintptr_t next = at; next < at + bytes;) {
    Mapping* const mapping = find(next);
    if (mapping == nullptr) return;
    if (mapping->protection != (PROT_READ | PROT_WRITE)) changed();
    protect(*mapping, PROT_READ | PROT_WRITE);
    next = mapping->base + mapping->bytes;
  }
}

bool Memory::in_range(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return range_ != 0 && at >= range_ && at < range_ + kRange;
}

std::string Memory::describe(const void* address, int device) {
  char text[160];
  const Mapping* const mapping = find(reinterpret_cast<uintptr_t>(address));
  if (mapping == nullptr) {
    std::snprintf(text, sizeof text, "access to %p, where no memory is", address);
  } else {
    std::snprintf(text, sizeof text,
                  "access to %p, memory of device %d (%zu bytes at %p), which device %d was not granted", address,
                  mapping->device, mapping->asked, reinterpret_cast<void*>(mapping->base), device);
  }
  return text;
}

}  // namespace fake
