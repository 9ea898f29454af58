// A host stream: a thread that runs calls in order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/rank.hpp"
#include "base/status.hpp"

namespace tutti::comm {

/// The result of something that runs on a stream. Its holders may wait for it, even after the stream is destroyed.
class Outcome {
 public:
  /// Called once.
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
  /// Throws Error(SystemError) if no thread can be started.
  Stream();
  /// Runs the remaining tasks, then ends.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// True for the next call of that rank in the communicator of that name.
  using IsNext = std::function<bool(const std::string& communicator, Rank rank)>;
  /// `is_next` tells what the task is while it waits; empty: it is no call.
  void enqueue(std::function<Status()> task, IsNext is_next = {});
  /// True if the calling thread runs a stream's task, and that rank's next call waits behind it on the same stream.
  static bool holds_back(const std::string& communicator, Rank rank);
  /// Waits until all tasks so far have run; returns the first error since the last synchronisation. Not from a task.
  Status synchronize();
  /// The same without waiting; `synchronize` still returns the error. Empty while tasks are pending.
  std::optional<Status> poll() const;
  /// Settles once all tasks so far have run, with the first error since the last synchronisation.
  std::shared_ptr<Outcome> record();
  /// True if the caller is one of its tasks.
  bool is_this_thread() const { return worker_.get_id() == std::this_thread::get_id(); }

 private:
  struct Queue;
  static void work(Queue& queue);
  static thread_local Queue* t_queue;  // that of the stream whose thread this is

  std::shared_ptr<Queue> queue_;  // shared with the thread: one of its tasks may drop the stream
  std::thread worker_;
};

}  // namespace tutti::comm
