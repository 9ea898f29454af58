// Threads of a GPU as fibers of one system thread, the engine's. Sanitizers are told of each switch: to ThreadSanitizer
// a fiber is a thread of its own, and a switch orders nothing.
#pragma once

#include <cstddef>

namespace fake {

class Fiber {
 public:
  /// `run(argument)` is called on the fiber's own stack by the first resume().
  Fiber(void (*run)(void*), void* argument);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Runs the fiber until it yields or ends. Called by the engine alone.
  void resume();
  bool ended() const { return ended_; }

  /// The fiber that runs on this system thread; null if none.
  static Fiber* current();
  /// Back to the engine. Called on the fiber.
  void yield();
  /// Back to the engine, for ever.
  [[noreturn]] void end();
  unsigned long middle_of_stack() const;

 private:
  static void enter();

  void (*run_)(void*);
  void* argument_;
  unsigned char* stack_;
  void* stack_pointer_ = nullptr;
  void* tsan_ = nullptr;
  void* asan_stack_ = nullptr;
  bool ended_ = false;
};

}  // namespace fake
