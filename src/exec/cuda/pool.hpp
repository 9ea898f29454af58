// Memory of a GPU for a backend's tables and programs. All of it is reserved when the backend is made: an allocation
// may wait for all kernels of the process, and these for other ranks. So may freeing: the memory goes to later backends
// of the process, never back to the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class Pool {
 public:
  /// Reserves so many bytes. Throws Error(OutOfMemory).
  Pool(const tutti::cuda::Device& device, uint64_t bytes);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Block {
    CUdeviceptr at = 0;
    uint64_t bytes = 0;
  };
  /// Aligned to 512 bytes. None: the pool has not so much left.
  std::optional<Block> try_take(uint64_t bytes);
  /// The same. Throws Error(OutOfMemory).
  Block take(uint64_t bytes);
  /// For later take()s. What ran there has ended.
  void give(const Block& block);
  uint64_t bytes() const { return all_.bytes; }

 private:
  const tutti::cuda::Device& device_;
  Block all_;
  std::vector<Block> free_;  // by address; neighbours are one
};

}  // namespace tutti::exec::cuda
