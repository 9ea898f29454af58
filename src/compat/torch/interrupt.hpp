// Ctrl-C during a blocking call of the main thread.
//
// Python runs its signal handlers in the main thread when that returns to the interpreter, which a call that waits for
// another rank does not. So while such a call runs, a SIGINT wakes a thread that gives the call some seconds to end and
// then aborts its group: the call returns, and the handler runs. A second SIGINT aborts at once.
#pragma once

#include "tutti/tutti.h"

namespace tutti_torch {

/// The scope of a blocking call. Outside the main thread it does nothing.
class Interruptible {
 public:
  explicit Interruptible(tuttiComm_t comm);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  bool watched_;
};

}  // namespace tutti_torch
