// A host stream: a thread that runs calls in order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/status.hpp"

namespace tutti::comm {

/// What became of something that runs on a stream. Whoever holds it may wait for it, whether the stream still is or
/// not.
class Outcome {
 public:
  /// Once.
  void settle(Status status) {
    status_ = std::move(status);
    settled_.store(true, std::memory_order_release);
    settled_.notify_all();
  }
  bool settled() const { return settled_.load(std::memory_order_acquire); }
  const Status& wait() const {
    settled_.wait(false, std::memory_order_acquire);
    return status_;
  }

 private:
  Status status_;
  std::atomic<bool> settled_{false};
};

class Stream {
 public:
  /// Throws Error(SystemError) where no thread can be had.
  Stream();
  /// Runs what is left, then ends.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void enqueue(std::function<Status()> task);
  /// Waits until all tasks so far have run; the first bad status since the last synchronisation. Not from a task.
  Status synchronize();
  /// The same without waiting, and it stays to be told by `synchronize`; empty while tasks are left.
  std::optional<Status> poll() const;
  /// Settles when all tasks so far have run, with the first bad status since the last synchronisation.
  std::shared_ptr<Outcome> record();
  /// Is the caller one of its tasks?
  bool is_this_thread() const { return worker_.get_id() == std::this_thread::get_id(); }

 private:
  struct Queue;
  static void work(Queue& queue);

  std::shared_ptr<Queue> queue_;  // the thread's too: one of its tasks may drop the stream
  std::thread worker_;
};

}  // namespace tutti::comm
