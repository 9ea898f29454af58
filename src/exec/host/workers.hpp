// Threads that run parts of a call beside the calling thread (TUTTI_THREADS).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tutti::exec {

class Workers {
 public:
  Workers() = default;
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Calls job(0) … job(count − 1) on threads of its own, which it starts at first use, and returns at once. The last
  /// jobs must be done. Throws Error(SystemError) if a thread cannot be started; then no job runs.
  void start(uint32_t count, std::function<void(uint32_t)> job);
  /// The system's numbers of the threads.
  std::vector<pid_t> threads() const;
  /// Have all jobs returned? What they wrote is then visible.
  bool done() const { return running_.load(std::memory_order_acquire) == 0; }

 private:
  void work(uint32_t index);

  static constexpr size_t kMax = 64;
  std::vector<std::thread> threads_;
  std::array<std::atomic<pid_t>, kMax> ids_{};
  std::function<void(uint32_t)> job_;
  uint32_t jobs_ = 0;
  uint64_t process_ = 0;  // that started the threads
  std::atomic<uint32_t> running_{0};
  std::atomic<uint32_t> calls_{0};  // raised when there are new jobs; 32 bits are a futex of their own
  bool ending_ = false;             // read after `calls_`
};

}  // namespace tutti::exec
