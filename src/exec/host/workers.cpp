#include "exec/host/workers.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "base/limits.hpp"
#include "base/process_generation.hpp"

namespace tutti::exec {

Workers::~Workers() {
  if (threads_.empty()) return;
  if (process_ != process_generation()) {  // in a fork's child: the threads are its parent's
    static_cast<void>(new (std::nothrow) std::vector<std::thread>(std::move(threads_)));
    return;
  }
  ending_ = true;
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start(uint32_t count, std::function<void(uint32_t)> job) {
  process_ = process_generation();
  while (threads_.size() < count) {
    const auto index = static_cast<uint32_t>(threads_.size());
    threads_.push_back(start_thread([this, index, seen = calls_.load()]() mutable {
      ids_[index] = static_cast<pid_t>(syscall(SYS_gettid));
      for (;; ++seen) {
        calls_.wait(seen, std::memory_order_acquire);
        if (ending_) return;
        work(index);
      }
    }));
  }
  job_ = std::move(job);
  jobs_ = count;
  running_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
}

std::vector<pid_t> Workers::threads() const {
  std::vector<pid_t> all;
  for (size_t i = 0; i < threads_.size(); ++i) all.push_back(ids_[i]);
  return all;
}

void Workers::work(uint32_t index) {
  if (index < jobs_) job_(index);
  running_.fetch_sub(1, std::memory_order_release);
}

}  // namespace tutti::exec
