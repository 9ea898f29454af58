// Memory that the GPUs of all ranks of a host have in common through a switch that multicasts (NVLink SHARP): each has
// its own, and a multicast address stands for the same place of all. What may be done at such an address, and the order
// of accesses, is in exec/cuda/multimem_access.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.hpp"
#include "transports/cuda/memory.hpp"
#include "transports/wireup.hpp"

namespace tutti::cuda {

/// Why this device has no such memory with any other; "" if it may.
std::string why_no_multicast(const Device& device);

/// One rank's part. It is made in two steps, join() and bind(), each of which all ranks end before any begins the next:
/// the driver's calls of the second would wait for ranks that have not ended the first.
class Multicast {
 public:
  /// At least `bytes`, equal on all ranks, each with a device of its own.
  Multicast(transports::Wireup& wireup, const Device& device, uint64_t bytes);
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  /// Both throw Error(Unsupported | OutOfMemory | PeerFailed | Timeout | ProtocolError).
  void join(Deadline deadline);
  /// The memory is zero afterwards.
  void bind();

  /// This rank's memory …
  unsigned char* own() const { return own_->base(); }
  /// … and that of all ranks.
  unsigned char* all() const { return reinterpret_cast<unsigned char*>(all_); }

 private:
  /// The driver's object, which rank 0 makes and gives to the others.
  struct Object;
  void make();
  void take_from_first(Deadline deadline);
  void map();

  transports::Wireup& wireup_;
  const Device& device_;
  const std::shared_ptr<Object> object_;
  std::shared_ptr<PeerMemory> own_;
  CUdeviceptr all_ = 0;
  bool bound_ = false, mapped_ = false;
};

}  // namespace tutti::cuda
