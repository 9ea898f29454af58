// The memory of the fake GPUs: memfds, mapped into an address range of this process. While no work runs, nothing of it
// can be touched; while a kernel of a device runs, what that device was granted can.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fake {

constexpr size_t kGranularity = 2 << 20;  ///< of physical memory handles
constexpr size_t kPage = 4096;
constexpr int kNoDevice = -1;  ///< of a multicast object

class Team;

/// Memory of a device, or of another process's device; or a multicast object.
struct Physical {
  Physical(int device, size_t bytes, unsigned handle_types);
  /// What another process exported.
  Physical(int fd, int device, size_t bytes, unsigned handle_types);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  const int device;
  const size_t bytes;
  const unsigned handle_types;  ///< CUmemAllocationHandleType
  const uint64_t id;            ///< of this object, never used again
  const bool counted;           ///< it is this process's share of the device's memory
  int fd = -1;
  std::unique_ptr<Team> team;  ///< of a multicast object
};

enum class Kind { Malloc, Pool, Ipc, Vmm, Host, Registered };

struct Mapping {
  uintptr_t base = 0;
  size_t bytes = 0;  ///< whole pages
  size_t asked = 0;  ///< as the user said
  Kind kind = Kind::Malloc;
  int device = -1;  ///< where the memory lies; of host memory: of the context
  uint64_t buffer_id = 0;
  uint32_t readers = 0, writers = 0;  ///< devices, as bits: those granted by cuMemSetAccess, or that opened it
  std::shared_ptr<Physical> physical;
  size_t offset = 0;  ///< in it
  CUcontext context = nullptr;
  int protection = 0;  ///< now

  bool on_host() const { return kind == Kind::Host || kind == Kind::Registered; }
  bool holds(uintptr_t at, size_t count) const {
    return at >= base && at <= base + asked && count <= base + asked - at;
  }
};

class Memory {
 public:
  /// Addresses for `bytes`; 0 if there are none left.
  uintptr_t reserve(size_t bytes, size_t alignment);
  void unreserve(uintptr_t base);
  /// The bytes reserved at `base`; 0: none.
  size_t reserved(uintptr_t base) const;
  /// Whether [at, at + bytes) lies in one reservation.
  bool within_reservation(uintptr_t at, size_t bytes) const;

  /// Maps `mapping`, whose addresses are reserved (host memory: which exists).
  Mapping& map(Mapping mapping);
  void unmap(uintptr_t base);
  /// The mapping that holds the address; null: none.
  Mapping* find(uintptr_t at);
  std::map<uintptr_t, Mapping>& mappings() { return mappings_; }

  bool may_read(const Mapping& mapping, int device) const { return allowed(mapping, device) != 0; }
  bool may_write(const Mapping& mapping, int device) const { return allowed(mapping, device) == 2; }

  /// Opens what `device` was granted, and closes all else. -1: closes all.
  void open_for(int device);
  /// Opens [at, at + bytes) for a copy engine, which reaches all.
  void open(uintptr_t at, size_t bytes);
  /// What was granted has changed.
  void changed() { open_device_ = kUnknown; }

  /// Whether the address lies in the range of device memory.
  bool in_range(const void* address) const;
  /// How an access to it is described.
  std::string describe(const void* address, int device);

  uint32_t peers[32] = {};  ///< of each device: the devices whose cuMemAlloc memory it may access, as bits
  size_t used[32] = {};     ///< bytes of each device

 private:
  static constexpr int kUnknown = -2;
  int allowed(const Mapping& mapping, int device) const;
  void protect(Mapping& mapping, int protection);

  uintptr_t range_ = 0;
  std::map<uintptr_t, size_t> reservations_;
  std::map<uintptr_t, Mapping> mappings_;
  int open_device_ = kUnknown;
};

Memory& memory();
uint64_t new_id();

}  // namespace fake
