// The last calls of this process in a file: because a call has failed, the program asks for it, or a signal comes.
#pragma once

#include <csignal>
#include <string>

#include "base/fd.hpp"
#include "control/event_loop.hpp"

namespace tutti::control {

/// Writes the last calls of all ranks of this process (trace/rank_trace.hpp) into a file that only this user can read;
/// %h in the path stands for the host's name, %p for the process's number. Returns its name. Throws Error(SystemError).
std::string write_trace(const std::string& path);

/// TUTTI_TRACE_SIGNAL: the signal's handler wakes the control thread, which writes TUTTI_TRACE_FILE. Belongs to the
/// control thread.
class TraceSignal {
 public:
  explicit TraceSignal(EventLoop& loop) : loop_(loop) {}

  /// Does nothing if the variable is unset. A signal for which the program has a handler is left to it, with a warning.
  void open();

 private:
  void write();

  EventLoop& loop_;
  Fd wake_;
};

}  // namespace tutti::control
