// What the devices of fake_nic.hpp share, and their registered memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>

#include "base/format.hpp"
#include "transports/verbs/nic.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {

class FakeQueue;

/// What all devices share.
struct Wire {
  std::mutex mutex;
  std::map<uint32_t, FakeQueue*> queues;
  struct Memory {
    uint64_t address = 0, bytes = 0;
    transports::verbs::RegionUse use = transports::verbs::RegionUse::Send;
    uint64_t moved = 0;  // from the address to where the device has the bytes: a dmabuf's
  };
  std::map<uint32_t, Memory> regions;  // by key
  std::deque<transports::verbs::Event> events;
  uint32_t last_queue = 100, last_key = 1000;
  uint64_t works = 0, atomic_steps = 0;
  const FakeQueue* changes_word = nullptr;  // the one queue whose atomic step has read its word, and not stored it yet
  std::minstd_rand random{12345};

  bool chance(uint32_t one_of) { return one_of != 0 && random() % one_of == 0; }
  bool allows(uint32_t key, uint64_t address, uint64_t bytes, bool write, bool window = false) const {
    const auto found = regions.find(key);
    if (found == regions.end() || (write && found->second.use == transports::verbs::RegionUse::Send)) return false;
    if (window && found->second.use != transports::verbs::RegionUse::Window) return false;
    const Memory& memory = found->second;
    return address >= memory.address && bytes <= memory.bytes && address - memory.address <= memory.bytes - bytes;
  }
};
inline Wire& wire() {
  static auto* const kWire = new Wire;
  return *kWire;
}

/// Places what is on its way into the region. Under the wire's mutex.
void settle_fake_queues(uint32_t key);

class FakeRegion final : public transports::verbs::Region {
 public:
  FakeRegion(void* data, uint64_t size, transports::verbs::RegionUse allowed, uint64_t moved = 0) {
    const std::lock_guard lock(wire().mutex);
    if (wire().regions.size() >= fake_nic_rules().max_regions) {
      throw_error(Code::OutOfMemory, "verbs: {} bytes cannot be registered: the fake device is full", size);
    }
    address = reinterpret_cast<uint64_t>(data);
    bytes = size;
    local_key = remote_key = ++wire().last_key;
    wire().regions[local_key] = {address, size, allowed, moved};
  }
  /// What the device has accepted for it is in place before.
  ~FakeRegion() override {
    const std::lock_guard lock(wire().mutex);
    settle_fake_queues(local_key);
    wire().regions.erase(local_key);
  }
};

/// A dmabuf's memory, as the device maps it: not where the GPU's owner has it. It begins at the descriptor's position,
/// as tests/gpu/fake gives it.
struct DmaBufMapping {
  explicit DmaBufMapping(const transports::verbs::DmaBuf& memory)
      : bytes(memory.offset + memory.bytes),
        at(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, ::lseek(memory.fd, 0, SEEK_CUR))) {
    if (at == MAP_FAILED) throw_error(Code::OutOfMemory, "verbs: the fake device cannot map the dmabuf");
  }
  ~DmaBufMapping() { ::munmap(at, bytes); }
  DmaBufMapping(const DmaBufMapping&) = delete;
  DmaBufMapping& operator=(const DmaBufMapping&) = delete;
  const uint64_t bytes;
  void* const at;
};

class FakeDeviceRegion final : public transports::verbs::Region {
 public:
  FakeDeviceRegion(const transports::verbs::DmaBuf& memory, transports::verbs::RegionUse allowed)
      : mapping_(memory),
        region_(reinterpret_cast<void*>(memory.address), memory.bytes, allowed,
                reinterpret_cast<uint64_t>(mapping_.at) + memory.offset - memory.address) {
    address = region_.address;
    bytes = region_.bytes;
    local_key = region_.local_key;
    remote_key = region_.remote_key;
  }

 private:
  const DmaBufMapping mapping_;
  const FakeRegion region_;
};

}  // namespace tutti::test
