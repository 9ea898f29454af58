// The thread that stands between an executor's kernels and the communicator: it ends kernels when the communicator has
// failed, and tells the observer what kernels report and how long they have waited.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "exec/cuda/lanes.hpp"
#include "exec/device_module.hpp"

namespace tutti::exec::cuda {

class Watcher {
 public:
  /// Its thread starts with the first call.
  Watcher(const DeviceContext& context, HostRecord& record) : context_(context), record_(record) {}
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// A call has been enqueued.
  void called();
  /// Ends the kernels that run, and all later ones.
  void end_kernels();

 private:
  void work();
  void look();
  void check_stall(uint64_t started, uint64_t ended);
  void tell_fault(uint64_t kind);
  void tell_wait() const;
  std::optional<Stall> current_wait() const;

  const DeviceContext context_;
  HostRecord& record_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  uint64_t calls_ = 0;  // enqueued
  uint64_t quiet_ = 0;  // turns since anything ran
  // Of the thread alone.
  bool told_ = false;
  uint64_t running_ = 0;  // the call that was running at the last turn
  double since_ = 0, next_check_ = 0;
  uint64_t stall_id_ = 0;
  std::thread thread_;
};

}  // namespace tutti::exec::cuda
