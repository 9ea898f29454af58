// Two ranks that share a device, for tests of what drivers do (FAKE_CUDA_RULES).
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {

/// Two ranks that share a device, each with 64 KiB of input and output, and a stream.
class DriverRules : public testing::Test {
 protected:
  static constexpr size_t kCount = 16 << 10;
  struct Own {
    GpuBuffer in{kCount * 4}, out{kCount * 4};
    GpuStream stream;
    float* input(size_t at = 0) const { return reinterpret_cast<float*>(in.get()) + at; }
    float* output(size_t at = 0) const { return reinterpret_cast<float*>(out.get()) + at; }
  };
  DriverRules() {
    use_gpu(0);
    for (auto& own : owns_) own = std::make_unique<Own>();
  }
  void each_rank(const std::function<void(int rank, tuttiComm_t comm, const Own& own)>& body) {
    with_ranks(2, [&](int rank, tuttiComm_t comm) {
      use_gpu(0);
      body(rank, comm, *owns_[static_cast<size_t>(rank)]);
      meet();
      owns_[static_cast<size_t>(rank)]->stream.synchronize();
    });
  }
  /// Counted from where all ranks are here to where all are again.
  template <class Count>
  static uint64_t counted(Count count, const std::function<void()>& body) {
    meet();
    const uint64_t before = count();
    meet();
    body();
    meet();
    const uint64_t after = count();
    meet();
    return after - before;
  }
  std::array<std::unique_ptr<Own>, 2> owns_;
};

}  // namespace tutti
