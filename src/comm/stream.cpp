#include "comm/stream.hpp"

#include <utility>

namespace tutti::comm {

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Stream::enqueue(std::function<Status()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

Status Stream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  return std::exchange(first_, {});
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    Status status = task();
    task = nullptr;  // what it holds goes before anybody hears that it is done
    lock.lock();
    busy_ = false;
    if (first_.ok()) first_ = std::move(status);
    changed_.notify_all();
  }
}

}  // namespace tutti::comm
