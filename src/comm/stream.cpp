#include "comm/stream.hpp"

#include <exception>
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
    ++enqueued_;
  }
  changed_.notify_all();
}

Status Stream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, mark = enqueued_] { return finished_ >= mark; });
  return std::exchange(first_, {});
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    Status status;
    try {
      status = task();
    } catch (const std::exception& error) {
      status = {Code::InternalError, error.what()};
    }
    task = nullptr;  // what it holds goes before anybody hears that it is done
    lock.lock();
    ++finished_;
    if (first_.ok()) first_ = std::move(status);
    changed_.notify_all();
  }
}

}  // namespace tutti::comm
