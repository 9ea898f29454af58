#include "multicast.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <mutex>
#include <string>

#include "config.hpp"
#include "state.hpp"

namespace fake {

Team::Team(int fd, size_t offset, size_t bytes) : bytes_(bytes) {
  void* const at = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY);
  page_ = static_cast<TeamPage*>(at);
}

Team::~Team() {
  for (unsigned char* memory : seen_) {
    if (memory != nullptr) munmap(memory, bytes_);
  }
  munmap(page_, kPage);
}

bool Team::is_complete() const {
  return static_cast<uint32_t>(std::popcount(page_->added.load())) == page_->devices.load();
}

void Team::bind(const std::shared_ptr<Physical>& memory) {
  TeamPage::Member& member = page_->members[memory->device];
  require(member.process.load() == 0, CUDA_ERROR_INVALID_VALUE);
  bound_[memory->device] = memory;
  member.fd = memory->fd;
  member.process.store(getpid());
}

bool Team::unbind(int device) {
  if (device < 0 || device >= static_cast<int>(TeamPage::kMax) || bound_[device] == nullptr) return false;
  page_->members[device].process.store(0);
  bound_[device] = nullptr;
  return true;
}

/// Mapped beside the addresses that the device was granted: only multimem instructions come here.
unsigned char* Team::memory_of(uint32_t device) {
  const TeamPage::Member& member = page_->members[device];
  const int process = member.process.load();
  if (process == 0) return nullptr;
  if (seen_[device] != nullptr) return seen_[device];
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(member.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return nullptr;
  return seen_[device] = static_cast<unsigned char*>(at);
}

uint32_t Team::places(size_t offset, size_t bytes, void** places) {
  uint32_t count = 0;
  for (uint32_t device = 0; device < TeamPage::kMax; ++device) {
    if (!has(static_cast<int>(device))) continue;
    const bool data = bytes == sizeof(uint64_t) * 2;  // not a signal
    if (config().fails("deaf_switch", static_cast<int>(device))) continue;
    if (data && config().fails("wrong_switch", static_cast<int>(device))) continue;
    unsigned char* const memory = memory_of(device);
    if (memory == nullptr) return 0;
    places[count++] = memory + offset;
  }
  return is_complete() ? count : 0;
}

uint32_t multicast_places(const void* address, size_t bytes, int device, void** places) {
  const std::lock_guard lock(state().mutex);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Mapping* const mapping = memory().find(at);
  if (mapping == nullptr || mapping->physical == nullptr || mapping->physical->team == nullptr) return 0;
  if (at % bytes != 0 || !mapping->holds(at, bytes) || !memory().may_write(*mapping, device)) return 0;
  return mapping->physical->team->places(at - mapping->base, bytes, places);
}

}  // namespace fake
