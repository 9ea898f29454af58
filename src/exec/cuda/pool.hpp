// Memory of a GPU for an executor's tables. It never goes back to the driver, but to later executors of the process:
// giving back waits for kernels, which may wait for other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class Pool {
 public:
  explicit Pool(const tutti::cuda::Device& device) : device_(device) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Block {
    CUdeviceptr at = 0;
    uint64_t bytes = 0;
  };
  /// Aligned to 512 bytes. Throws Error(OutOfMemory).
  Block take(uint64_t bytes);
  /// For later take()s. What ran there has ended.
  void give(const Block& block) { free_.push_back(block); }

 private:
  Block chunk(uint64_t bytes) const;
  const tutti::cuda::Device& device_;
  std::vector<Block> chunks_;
  std::vector<Block> free_;
  Block rest_;  // of the last chunk
};

}  // namespace tutti::exec::cuda
