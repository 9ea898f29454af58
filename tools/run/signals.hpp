// The signals that the launcher gets, as bytes to be read when it has time for them.
#pragma once

#include <csignal>

#include "base/fd.hpp"

namespace tutti::tools {

/// Signals taken as bytes instead of interruptions, for the life of this object.
class SignalQueue {
 public:
  /// Throws Error(SystemError).
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return queue_.get(); }
  /// The mask of signals as it was.
  const sigset_t& before() const { return before_; }
  /// 0: none.
  int next();

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  Fd queue_;
};

}  // namespace tutti::tools
