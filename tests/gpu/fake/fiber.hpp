// Threads of a GPU as fibers of one system thread, the engine's. Sanitizers are told of each switch: to ThreadSanitizer
// a fiber is a thread of its own, and a switch orders nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace fake {

/// Stacks, and ThreadSanitizer's idea of a thread, to be used again: making them takes most of a launch's time. A pool
/// serves one stream, because who uses them again is ordered after who used them before.
class FiberPool {
 public:
  struct Item {
    unsigned char* stack;
    void* tsan;
  };
  FiberPool() = default;
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();
  Item take();
  void give(Item item) { items_.push_back(item); }

 private:
  std::vector<Item> items_;
};

class Fiber {
 public:
  /// `run(argument)` is called on the fiber's own stack by the first resume().
  Fiber(FiberPool& pool, void (*run)(void*), void* argument);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  FiberPool::Item item() const { return {stack_, tsan_}; }  ///< to be given back when the fiber is gone

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
