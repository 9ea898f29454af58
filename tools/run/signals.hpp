// The launcher's signals, as bytes that it reads when it is ready.
#pragma once

#include <csignal>

#include "base/fd.hpp"

namespace tutti::tools {

/// Turns signals into readable bytes during this object's lifetime.
class SignalQueue {
 public:
  /// Throws Error(SystemError).
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return queue_.get(); }
  /// The previous signal mask.
  const sigset_t& before() const { return before_; }
  /// 0: none.
  int next();

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  Fd queue_;
};

}  // namespace tutti::tools
