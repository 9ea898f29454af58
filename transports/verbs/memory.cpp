#include "transports/verbs/memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"
#include "transports/verbs/mapping_watch.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kPage = 4096;  // a multiple of it would do as well

bool holds(const Region& region, uint64_t begin, uint64_t bytes, RegionUse use) {
  return (use == RegionUse::Send || region.use == RegionUse::Data) && begin >= region.address &&
         bytes <= region.bytes && begin - region.address <= region.bytes - bytes;
}

}  // namespace

void FreePages::operator()(unsigned char* data) const { ::munmap(data, bytes); }

Buffer::Buffer(Nic& nic, uint64_t bytes, RegionUse use) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_error(Code::OutOfMemory, "verbs: no memory for a buffer of {} bytes", bytes);
  data = {static_cast<unsigned char*>(memory), FreePages{bytes}};
  region = nic.register_memory(memory, bytes, use);
}

Memory::Memory(Nic& nic, unsigned char* arena, uint64_t arena_bytes, ExportDevice export_device)
    : nic_(nic), export_device_(export_device) {
  if (arena_bytes == 0) return;
  try {
    arena_ = nic.register_memory(arena, arena_bytes, RegionUse::Send);
  } catch (const Error& error) {  // its messages go through bounce buffers
    log_warn("{}; staged messages are copied once more", error.what());
  }
}

std::shared_ptr<const Region> Memory::find(const void* data, uint64_t bytes, RegionUse use) {
  const auto begin = reinterpret_cast<uint64_t>(data);
  if (arena_ != nullptr && holds(*arena_, begin, bytes, use)) return arena_;
  if (auto region = find_held(begin, bytes, use)) return region;
  if (bytes < kRegisterFrom) return nullptr;
  forget_unmapped();
  ++clock_;
  if (auto region = find_cached(begin, bytes, use)) return region;
  return full_ ? nullptr : register_pages(begin / kPage * kPage, (begin + bytes + kPage - 1) / kPage * kPage, use);
}

std::shared_ptr<const Region> Memory::find_held(uint64_t begin, uint64_t bytes, RegionUse use) {
  for (const Held& held : held_) {
    if (begin < held.begin || begin >= held.end) continue;
    auto region = held.region.lock();
    if (region != nullptr && holds(*region, begin, bytes, use)) return region;
  }
  return nullptr;
}

std::shared_ptr<const Region> Memory::find_device(const void* data, uint64_t bytes) {
  if (!has_device_) return nullptr;
  auto region = find_held(reinterpret_cast<uint64_t>(data), bytes, RegionUse::Send);
  return region != nullptr && region->of_device ? region : nullptr;
}

std::shared_ptr<const Region> Memory::find_cached(uint64_t begin, uint64_t bytes, RegionUse use) {
  // Any region that holds the bytes begins at most `longest_` before them.
  for (auto at = cached_.upper_bound(begin); at != cached_.begin();) {
    --at;
    if (begin - at->first > longest_) return nullptr;
    if (!holds(*at->second.region, begin, bytes, use)) continue;
    at->second.used = clock_;
    return at->second.region;
  }
  return nullptr;
}

std::shared_ptr<const Region> Memory::register_pages(uint64_t begin, uint64_t end, RegionUse use) {
  // First watched, then registered: a change in between is noticed.
  if (!MappingWatch::of_this_process().watch(begin, end)) return nullptr;
  if (cached_.size() >= kMaxCached) make_room();
  std::unique_ptr<Region> made;
  for (int attempt = 0; made == nullptr; ++attempt) {
    try {
      made = nic_.register_memory(reinterpret_cast<void*>(begin), end - begin, use);
    } catch (const Error& error) {
      if (attempt > 0 || cached_.empty()) {
        log_warn("{}; long messages are copied before they are sent", error.what());
        full_ = true;
        return nullptr;
      }
      cached_.clear();
    }
  }
  made->use = use;
  longest_ = std::max(longest_, end - begin);
  return (cached_[begin] = {std::move(made), clock_}).region;
}

/// Forgets the half of the cache that was not used for longest.
void Memory::make_room() {
  std::vector<uint64_t> used;
  for (const auto& [begin, cached] : cached_) used.push_back(cached.used);
  std::nth_element(used.begin(), used.begin() + static_cast<ptrdiff_t>(used.size() / 2), used.end());
  const uint64_t limit = used[used.size() / 2];
  std::erase_if(cached_, [limit](const auto& entry) { return entry.second.used <= limit; });
}

void Memory::forget_unmapped() {
  MappingWatch::Gone gone;
  while (MappingWatch::of_this_process().take(reports_, gone)) {
    std::erase_if(cached_, [&gone](const auto& entry) {
      const Region& region = *entry.second.region;
      return region.address < gone.end && gone.begin < region.address + region.bytes;
    });
  }
}

Registration Memory::acquire(const void* data, uint64_t bytes, MemoryUse use) {
  const RegionUse kind = use == MemoryUse::Read ? RegionUse::Send : RegionUse::Data;
  std::unique_ptr<Region> made;
  if (const ExportedMemory device = export_device_(data, bytes); device.is_device) {
    if (!nic_.info().dmabuf || device.buffer.fd < 0) {
      throw_error(Code::Unsupported, "verbs: {} cannot reach memory of a GPU: {}", nic_.info().name,
                  nic_.info().dmabuf ? "the GPU's driver exports it as no dmabuf" : "its driver registers no dmabuf");
    }
    made = nic_.register_dmabuf(device.buffer, kind);
    made->of_device = has_device_ = true;
  } else {
    made = nic_.register_memory(const_cast<void*>(data), bytes, kind);
  }
  made->use = kind;
  std::shared_ptr<const Region> region = std::move(made);
  std::erase_if(held_, [](const Held& held) { return held.region.expired(); });
  held_.push_back({region->address, region->address + region->bytes, region});
  return region;
}

}  // namespace tutti::transports::verbs
