// Memory that other ranks' GPUs load and store: threads of this process at its address, other processes after they have
// mapped it.
//
// Memory of this rank's GPU, given away as a descriptor (Fd: virtual memory management) or, where the driver has no
// such descriptors, as a handle (Ipc). Where a GPU cannot reach another, memory of the host (Host): slower, but
// every GPU reaches that.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "link/segment.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::cuda {

/// Can the device's memory be given away as a descriptor?
bool gives_descriptors(const Device& device);

/// What another process maps memory by, beside a descriptor. Plain bytes.
struct Share {
  uint32_t form = 0;    ///< CudaMemory
  uint64_t bytes = 0;   ///< of the memory
  uint64_t offset = 0;  ///< Ipc: of the memory, in the allocation that the handle names
  CUipcMemHandle handle{};
};

class PeerMemory {
 public:
  /// Memory for all devices of this process that reach it, in the form that TUTTI_CUDA_MEMORY and the devices permit.
  /// Waits for nothing that a device does; what is in memory of a GPU is not known. Throws Error(OutOfMemory |
  /// Unsupported | …).
  static std::shared_ptr<PeerMemory> create(const Device& device, uint64_t bytes);
  /// That form.
  static CudaMemory form_for(const Device& device);
  /// The same in memory of the host (Host), zeroed.
  static std::shared_ptr<PeerMemory> create_on_host(const Device& device, uint64_t bytes);
  /// The same in the form Fd.
  static std::shared_ptr<PeerMemory> create_shareable(const Device& device, uint64_t bytes);
  /// Maps what `whose` (for error texts) has exported, for `device`. Throws Error(Unsupported) if the device cannot
  /// reach it, Error(ProtocolError) if it is none of this library's memory.
  static std::shared_ptr<PeerMemory> import(const Device& device, const Share& share, Fd fd, const std::string& whose);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  unsigned char* base() const { return reinterpret_cast<unsigned char*>(base_); }
  /// Of memory of the host: where this process's processors have it.
  unsigned char* on_host() const { return segment_.base(); }
  uint64_t bytes() const { return bytes_; }
  CudaMemory form() const { return form_; }
  /// Of the form Fd.
  CUmemGenericAllocationHandle handle() const { return handle_; }
  /// Makes the memory accessible for another device of this process. Throws Error(Unsupported) if it cannot be.
  void open_to(const Device& other) const;
  /// What another process needs, with a descriptor for Fd and Host. Throws Error(Unsupported).
  Share share() const;
  Fd share_fd() const;

 private:
  PeerMemory(const Device& device, uint64_t bytes, CudaMemory form) : device_(device), bytes_(bytes), form_(form) {}
  static std::shared_ptr<PeerMemory> create(const Device& device, uint64_t bytes, CudaMemory form);
  void create_mappable();
  void map();
  void grant_to_all();
  void register_host();
  void check_extent(const Share& share, const std::string& whose) const;
  const Device& device_;
  uint64_t bytes_;
  const CudaMemory form_;
  CUdeviceptr base_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;  // Fd
  bool has_handle_ = false, mapped_ = false;
  CUdeviceptr opened_ = 0;  // Ipc, of a peer: the allocation
  link::Segment segment_;   // Host
  bool registered_ = false;
};

/// A rank's memory of links: what lies with it of each. The end of a link that comes first reserves it. And behind that
/// the rank's staging memory.
class LinkArena {
 public:
  /// The memory of links is zeroed. `ring_bytes`: of ring and slots of a link, by its link lane.
  LinkArena(const Device& device, uint64_t bytes, uint64_t staging, std::function<uint64_t(uint32_t)> ring_bytes);
  const Device& device() const { return device_; }
  const PeerMemory& memory() const { return *memory_; }
  unsigned char* staging() const { return memory_->base() + links_; }
  uint64_t staging_bytes() const { return memory_->form() == CudaMemory::Host ? 0 : staging_; }

  /// The offset of the ring, if there is one, and the slots of the link from `writer`. Throws Error(OutOfMemory).
  uint64_t ring(Rank writer, uint32_t link_lane);
  /// The offset of the counter of the link to `reader`.
  uint64_t counter(Rank reader, uint32_t link_lane);
  /// Bytes of ring and slots.
  uint64_t ring_bytes(uint32_t link_lane) const { return ring_bytes_(link_lane); }

 private:
  using Key = std::pair<Rank, uint32_t>;
  uint64_t reserve(std::map<Key, uint64_t>& known, const Key& key, uint64_t bytes);
  const Device& device_;
  const uint64_t links_, staging_;  // bytes
  const std::function<uint64_t(uint32_t)> ring_bytes_;
  std::shared_ptr<PeerMemory> memory_;
  std::mutex mutex_;
  std::map<Key, uint64_t> rings_, counters_;
  uint64_t used_ = 0;
};

}  // namespace tutti::cuda
