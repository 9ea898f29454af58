// The interpreter's policies for a GPU: a block of threads runs a lane.
#pragma once

#include <cstdint>

#include "exec/cuda/device.hpp"
#include "exec/interpreter.hpp"

namespace tutti::exec::cuda {

class BlockGroup {
 public:
  /// `shared`: a word of the block's memory.
  TUTTI_DEVICE explicit BlockGroup(uint32_t& shared) : shared_(shared) {}
  TUTTI_DEVICE static uint32_t thread() { return gpu::thread_index(); }
  TUTTI_DEVICE static bool leader() { return gpu::thread_index() == 0; }
  TUTTI_DEVICE static void sync() { gpu::sync_block(); }
  TUTTI_DEVICE Outcome broadcast(Outcome outcome) const {
    return static_cast<Outcome>(broadcast(static_cast<uint32_t>(outcome)));
  }
  /// The leader's value, for all threads.
  TUTTI_DEVICE uint32_t broadcast(uint32_t value) const {
    if (leader()) shared_ = value;
    sync();
    const uint32_t everyones = shared_;
    sync();  // nobody may overwrite it before all have read it
    return everyones;
  }

 private:
  uint32_t& shared_;
};

/// Words that hosts and other GPUs see.
struct SystemMemory {
  TUTTI_DEVICE static uint64_t load(const uint64_t* at) { return gpu::load_relaxed<gpu::Scope::System>(at); }
  TUTTI_DEVICE static uint64_t load_acquire(const uint64_t* at) { return gpu::load_acquire<gpu::Scope::System>(at); }
  TUTTI_DEVICE static void store_release(uint64_t* at, uint64_t value) {
    gpu::store_release<gpu::Scope::System>(at, value);
  }
  TUTTI_DEVICE static bool claim(uint64_t* at) {
    return gpu::exchange_relaxed<gpu::Scope::Device>(at, uint64_t{1}) == 0;
  }
  TUTTI_DEVICE static void prefetch(const void*) {}
  TUTTI_DEVICE static void prefetch_for_writing(const void*) {}
};

using BlockWire = link::SlotWire<SystemMemory>;

}  // namespace tutti::exec::cuda
