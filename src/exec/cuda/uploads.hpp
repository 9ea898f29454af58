// What calls need in the memory of the GPU before they run: programs, tables of links. It is copied there on the call's
// own stream, from pinned memory that is reserved when the backend is made, since pinning may wait for all kernels of
// the process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/gpu/call_count.hpp"
#include "exec/gpu/gpu.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

class Uploads {
 public:
  Uploads(const gpu::Gpu& gpu, const tutti::cuda::Device& device, const gpu::CallCount& calls);

  /// To be there before the next call runs.
  void add(CUdeviceptr to, const void* from, uint64_t bytes);
  /// Enqueues what has been added, for the call with this number. Waits only when calls before it, which have not
  /// ended, use all of the pinned memory; throws what that wait throws.
  void send(CUstream stream, uint64_t call);
  /// Where the GPU reads a copy of these bytes, in memory of the host, until the call with this number has ended. Waits
  /// as send() does.
  static constexpr uint64_t kLongestLoan = 16 << 10;
  const unsigned char* lend(const void* from, uint64_t bytes, uint64_t call);
  /// For a captured call, whose graph must not repeat it: writes it now, on the library's own stream.
  void send_now();

 private:
  struct Upload {
    CUdeviceptr to = 0;
    std::vector<unsigned char> bytes;
  };
  /// A part of the pinned memory.
  struct Part {
    uint64_t used = 0;  ///< bytes
    uint64_t call = 0;  ///< the last that it was used for
  };
  void send(const Upload& upload, CUstream stream, uint64_t call);
  void next_part();

  const tutti::cuda::Device& device_;
  const gpu::CallCount& calls_;
  const std::shared_ptr<unsigned char> pinned_;
  const unsigned char* const for_gpu_;  // the same memory, as the GPU has it
  std::vector<Upload> pending_;
  std::array<Part, 4> parts_;
  size_t part_ = 0;  // that is written now
};

}  // namespace tutti::exec::cuda
