// A function that some threads call and another may take away.
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

  /// Replaces the function. On return no call of the old one is under way; so not from within it.
  void set(Function function) {
    const std::lock_guard lock(mutex_);
    function_.swap(function);
  }
  /// Calls it, one call at a time; nothing where there is none.
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
