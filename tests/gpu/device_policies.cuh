// The interpreter's policies for a GPU: a block is the group. Compiled by the tests so that the interpreter stays one
// source for hosts and devices; not run here.
#pragma once

#include <cuda/atomic>

#include "exec/interpreter.hpp"
#include "exec/no_remote_access.hpp"

namespace tutti::exec {

struct BlockGroup {
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
  __device__ const unsigned char** operands(const LaneState& lane, const Instruction&) const { return lane.operands; }
  __device__ bool leader() const { return threadIdx.x == 0; }
  __device__ void sync() const { __syncthreads(); }
  __device__ Outcome broadcast(Outcome outcome) const {
    __shared__ Outcome shared;
    if (leader()) shared = outcome;
    __syncthreads();
    const Outcome everyones = shared;
    __syncthreads();  // nobody may overwrite it before all have read it
    return everyones;
  }
};

/// Words that hosts and other GPUs see: system scope.
struct DeviceMemory {
  using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;
  __device__ static Word word(const uint64_t* at) { return Word(*const_cast<uint64_t*>(at)); }
  __device__ static uint64_t load(const uint64_t* at) { return word(at).load(cuda::memory_order_relaxed); }
  __device__ static uint64_t load_acquire(const uint64_t* at) { return word(at).load(cuda::memory_order_acquire); }
  __device__ static void store_release(uint64_t* at, uint64_t value) {
    word(at).store(value, cuda::memory_order_release);
  }
  __device__ static bool claim(uint64_t* at) { return word(at).exchange(1, cuda::memory_order_relaxed) == 0; }
  __device__ static void prefetch(const void*) {}
  __device__ static void prefetch_for_writing(const void*) {}
};

/// Sums of T; the host's kernel table has no counterpart on a device, so the type is the policy's.
template <class T>
struct BlockSum : InMemory {
  __device__ static void copy(const BlockGroup&, unsigned char* to, const unsigned char* from, uint64_t bytes) {
    for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
  }
  __device__ static void run(const BlockGroup&, const Arithmetic& how, const Instruction& op, const Segment& segment,
                             unsigned char* to, unsigned char* slot, const unsigned char* const* sources) {
    for (uint64_t i = threadIdx.x; i < segment.bytes / sizeof(T); i += blockDim.x) {
      T sum = reinterpret_cast<const T*>(sources[0])[i];
      for (uint32_t k = 1; k < op.sources; ++k) sum += reinterpret_cast<const T*>(sources[k])[i];
      if (op.completes && how.divide_by > 1) sum /= static_cast<T>(how.divide_by);
      if (to != nullptr) reinterpret_cast<T*>(to)[i] = sum;
      if (slot != nullptr) reinterpret_cast<T*>(slot)[i] = sum;
    }
  }
};

template <class T>
using DeviceInterpreter = Interpreter<BlockGroup, link::SlotWire<DeviceMemory>, BlockSum<T>, NoRemoteAccess>;

}  // namespace tutti::exec
