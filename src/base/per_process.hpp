// An object of which each process has one, and a forked child one of its own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace tutti {

/// The T of this process, made at first use. Never destroyed: threads may outlive main().
template <class T>
T& of_this_process() {
  struct Held {
    pid_t process;
    T object;
  };
  static std::atomic<Held*> held{nullptr};
  Held* now = held.load(std::memory_order_acquire);
  while (now == nullptr || now->process != getpid()) {
    auto fresh = std::make_unique<Held>();
    fresh->process = getpid();
    if (held.compare_exchange_strong(now, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->object;
  }
  return now->object;
}

}  // namespace tutti
