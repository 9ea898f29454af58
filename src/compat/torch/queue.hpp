// The host stream of a group: runs its operations in order, on a thread of its own or on the caller's.
#pragma once

#include <atomic>
#include <functional>

#include "compat/torch/work.hpp"
#include "tutti/check.hpp"
#include "tutti/stream.hpp"

namespace tutti_torch {

/// What a queue runs.
using Task = std::function<void()>;

class Queue {
 public:
  /// The communicator of the operations, which an interrupted call aborts.
  void serve(tuttiComm_t comm) { comm_ = comm; }
  /// Runs `task` after all earlier ones, then completes `work`. `waits`: the caller waits for it anyway, so its own
  /// thread may run it, which saves two switches between threads.
  void run(const c10::intrusive_ptr<Work>& work, Task task, bool waits);
  /// The same for what reports in its own way; it must not throw.
  void launch(Task task);
  /// Nothing is queued or runs, also on threads that wait.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }
  /// Waits until everything has run.
  void drain();

 private:
  tuttiComm_t comm_ = nullptr;
  tutti::Stream stream_;
  std::atomic<int> pending_{0};
};

/// Runs `task` and completes `work` with what it throws.
void execute(Work& work, const Task& task);

}  // namespace tutti_torch
