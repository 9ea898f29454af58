#include "transports/cuda/retired.hpp"

#include <exception>
#include <thread>
#include <utility>

namespace tutti::cuda {

void Retired::put(const Device& device, std::shared_ptr<void> memory) {
  if (memory == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    if (ranks_[&device] == 0) return;  // then it is freed here, by the end of `memory`
  }
  hand_over(std::move(memory));
}

void Retired::hand_over(std::shared_ptr<void> memory, double after) {
  const auto delay = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(after));
  const std::lock_guard lock(mutex_);
  try {
    if (!has_thread_) std::thread([this] { work(); }).detach();
    has_thread_ = true;
    waiting_.emplace(Clock::now() + delay, std::move(memory));
    added_.notify_one();
  } catch (const std::exception&) {  // no thread, or no memory: it is freed here too
  }
}

Retired& Retired::instance() {
  static auto* const kAll = new Retired;
  return *kAll;
}

void Retired::count(const Device& device, int change) {
  const std::lock_guard lock(mutex_);
  ranks_[&device] += change;
}

void Retired::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (waiting_.empty()) {
      added_.wait(lock);
    } else if (const auto due = waiting_.begin()->first; due > Clock::now()) {
      added_.wait_until(lock, due);
    } else {
      std::shared_ptr<void> freed = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      lock.unlock();
      freed.reset();
      lock.lock();
    }
  }
}

}  // namespace tutti::cuda
