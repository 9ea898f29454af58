// A function that some threads call and another thread may remove.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

namespace tutti {

template <class Signature>
class Guarded;

template <class Result, class... Args>
class Guarded<Result(Args...)> {
 public:
  using Function = std::function<Result(Args...)>;

  /// Replaces the function. Returns after running calls of the old one have ended; must not be called from within it.
  void set(Function function) {
    const std::lock_guard lock(mutex_);
    function_.swap(function);
  }
  /// Calls the function, one call at a time; empty if there is none.
  std::optional<Result> operator()(Args... args) {
    const std::lock_guard lock(mutex_);
    if (!function_) return std::nullopt;
    return function_(args...);
  }

 private:
  std::mutex mutex_;
  Function function_;
};

}  // namespace tutti
