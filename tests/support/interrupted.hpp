// Link memory whose accesses can be interrupted by a step of the other end, to try all interleavings on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace tutti::test {

struct Interrupted {
  static inline std::function<void()> interrupt;
  static void pause() {
    if (!interrupt) return;
    const auto now = std::exchange(interrupt, nullptr);  // an interrupt is not interrupted
    now();
    interrupt = now;
  }
  static uint64_t load_acquire(const uint64_t* word) { return pause(), *word; }
  static uint64_t load_ordered(const uint64_t* word) { return pause(), *word; }
  static uint64_t load_last(const uint64_t* word) { return pause(), *word; }
  static void store_release(uint64_t* word, uint64_t value) { pause(), *word = value; }
  static void store_ordered(uint64_t* word, uint64_t value) { pause(), *word = value; }
};

}  // namespace tutti::test
