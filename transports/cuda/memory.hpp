// Memory of a GPU that other ranks load and store: threads of this process at its address, other processes after they
// have mapped it through a descriptor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fd.hpp"
#include "base/rank.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::cuda {

class PeerMemory {
 public:
  /// Zeroed memory of `device`, for all devices of this process that reach it. Throws Error(OutOfMemory | …).
  static std::shared_ptr<PeerMemory> create(const Device& device, uint64_t bytes);
  /// Maps what another process has exported, for `device`. Throws Error(Unsupported) if the device cannot reach it.
  static std::shared_ptr<PeerMemory> import(const Device& device, const Fd& fd, uint64_t bytes);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  unsigned char* base() const { return reinterpret_cast<unsigned char*>(base_); }
  uint64_t bytes() const { return bytes_; }
  /// A descriptor for another process. Throws Error(Unsupported).
  Fd export_fd() const;

 private:
  PeerMemory(const Device& device, uint64_t bytes) : device_(device), bytes_(bytes) {}
  void map();
  const Device& device_;
  uint64_t bytes_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr base_ = 0;
  bool has_handle_ = false, mapped_ = false;
};

/// A rank's memory of links: what lies with it of each. The end of a link that comes first reserves it.
class LinkArena {
 public:
  /// Messages have `push_bytes` bytes at most. `line_slot`: bytes of a slot on a link lane of links in lines
  /// (link/lines.hpp).
  LinkArena(const Device& device, uint64_t bytes, uint64_t push_bytes, std::function<uint64_t(uint32_t)> line_slot);
  const Device& device() const { return device_; }
  const PeerMemory& memory() const { return *memory_; }

  /// The offset of the ring, if there is one, and the slots of the link from `writer`. Throws Error(OutOfMemory).
  uint64_t ring(Rank writer, uint32_t link_lane);
  /// The offset of the counter of the link to `reader`.
  uint64_t counter(Rank reader, uint32_t link_lane);
  /// Bytes of ring and slots.
  uint64_t ring_bytes(uint32_t link_lane) const;

 private:
  using Key = std::pair<Rank, uint32_t>;
  uint64_t reserve(std::map<Key, uint64_t>& known, const Key& key, uint64_t bytes);
  const Device& device_;
  const uint64_t push_bytes_;
  const std::function<uint64_t(uint32_t)> line_slot_;
  std::shared_ptr<PeerMemory> memory_;
  std::mutex mutex_;
  std::map<Key, uint64_t> rings_, counters_;
  uint64_t used_ = 0;
};

}  // namespace tutti::cuda
