// Whom torch asks a group to tell of operations that ended well: its flight recorder does, so that it can tell which
// ones have not.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <cstdint>

#ifdef TUTTI_TORCH_HOOKS
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#endif

namespace tutti_torch {

class Hooks {
 public:
#ifdef TUTTI_TORCH_HOOKS  // torch's headers have them: cmake/Torch.cmake looks
  void add(int64_t id, c10d::CompletionHook hook) {
    const std::lock_guard lock(mutex_);
    hooks_.insert_or_assign(id, std::move(hook));
    any_.store(true, std::memory_order_release);
  }
  void remove(int64_t id) {
    const std::lock_guard lock(mutex_);
    hooks_.erase(id);
    any_.store(!hooks_.empty(), std::memory_order_release);
  }
  /// Any thread.
  void completed(uint64_t key) {
    if (!any_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, hook] : hooks_) hook({key, std::nullopt});
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<int64_t, c10d::CompletionHook> hooks_;
#else
  void completed(uint64_t) {}
#endif
};

}  // namespace tutti_torch
