// How a CPU loads and stores the words of a link.
#pragma once

#include <atomic>
#include <cstdint>

#include "link/cooperative_copy.hpp"
#include "link/revoke.hpp"
#include "link/wire.hpp"
#include "reduce/prefetch.hpp"

namespace tutti::link {

struct HostMemory {
  static uint64_t load(const uint64_t* word) { return ref(word).load(std::memory_order_relaxed); }
  static uint64_t load_acquire(const uint64_t* word) { return ref(word).load(std::memory_order_acquire); }
  static void store_release(uint64_t* word, uint64_t value) { ref(word).store(value, std::memory_order_release); }
  static bool claim(uint64_t* word) { return ref(word).exchange(1, std::memory_order_relaxed) == 0; }
  static uint64_t load_ordered(const uint64_t* word) { return ref(word).load(std::memory_order_seq_cst); }
  static void store_ordered(uint64_t* word, uint64_t value) { ref(word).store(value, std::memory_order_seq_cst); }

  /// Orders the load after all earlier loads. Not a fence, because ThreadSanitizer does not support fences.
  static uint64_t load_last(const uint64_t* word) {
#if defined(__x86_64__)
    asm volatile("" ::: "memory");  // x86 keeps loads in order
#elif defined(__aarch64__)
    asm volatile("dmb ishld" ::: "memory");
#else
    __sync_synchronize();
#endif
    return load_acquire(word);
  }

  static void prefetch(const void* line) { __builtin_prefetch(line); }
  static void prefetch_for_writing(const void* line) { tutti::prefetch_for_writing(line); }

 private:
  static std::atomic_ref<uint64_t> ref(const uint64_t* word) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word));  // atomic_ref takes no const
  }
};

using HostWire = SlotWire<HostMemory>;
using HostCooperativeWire = CooperativeWire<HostMemory>;
using HostRevokeWire = RevokeWire<HostMemory>;

}  // namespace tutti::link
