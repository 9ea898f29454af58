// What a wait has to do with Python: the interpreter's lock, and signals.
#pragma once

#include <memory>

namespace tutti_torch {

/// Releases the interpreter's lock for a scope, if this thread holds it.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* state_ = nullptr;
};

/// Runs Python's signal handlers if this is the main thread and a signal is pending; throws what they raise, such as
/// KeyboardInterrupt.
void check_signals();

}  // namespace tutti_torch
