// A host stream: a thread that runs calls in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.hpp"

namespace tutti::comm {

class Stream {
 public:
  Stream() : worker_([this] { work(); }) {}
  /// Runs what is left, then ends.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void enqueue(std::function<Status()> task);
  /// Waits until all tasks so far have run; the first bad status since the last synchronisation.
  Status synchronize();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> tasks_;
  uint64_t enqueued_ = 0, finished_ = 0;
  bool ending_ = false;
  Status first_;
  std::thread worker_;  // last: it uses the others
};

}  // namespace tutti::comm
