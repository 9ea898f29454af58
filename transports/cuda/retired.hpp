// Memory that nobody uses any more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "transports/cuda/device.hpp"

namespace tutti::cuda {

/// Frees memory between GPUs. Freeing it waits for all kernels of its GPU, and these may wait for who frees it: for a
/// rank whose next call comes from this thread, or for a peer that asks the control thread. So a thread that nobody
/// waits for frees it, while ranks of this process use that GPU.
class Retired {
 public:
  /// A rank of this process begins (ends) to use the GPU.
  void begin(const Device& device) { count(device, 1); }
  void end(const Device& device) { count(device, -1); }
  /// Frees `memory`, now or later, by letting go of it.
  void put(const Device& device, std::shared_ptr<void> memory);
  /// Frees it later in any case: for who may not call the driver; `after` seconds from now, or later.
  void hand_over(std::shared_ptr<void> memory, double after = 0);
  static Retired& instance();

 private:
  void count(const Device& device, int change);
  [[noreturn]] void work();

  std::mutex mutex_;
  std::condition_variable added_;
  std::map<const Device*, int> ranks_;  // communicators' ranks that have links now
  using Clock = std::chrono::steady_clock;
  std::multimap<Clock::time_point, std::shared_ptr<void>> waiting_;  // by when
  bool has_thread_ = false;
};

}  // namespace tutti::cuda
