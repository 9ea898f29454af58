// What a kernel does beyond C++. Each function has two bodies: nvcc compiles the one for a GPU, any other compiler the
// one for a host.
//
// A kernel is written once. nvcc makes it an entry of the fatbin; g++ makes its *twin*, an ordinary function that a
// block runtime calls once for each thread of each block (tests/gpu/fake/). So kernels run, and are raced and fuzzed,
// where there is no GPU.
//
//   struct FillArguments { uint32_t* to; uint32_t count, value; };
//   TUTTI_KERNEL(tutti_fill, FillArguments, 256) {
//     for (uint32_t i = ptx::thread_index(); i < arguments.count; i += ptx::block_size()) {
//       arguments.to[i] = arguments.value;
//     }
//   }
//
// Rules for code that must run as a twin, too: no builtin variable of CUDA and no intrinsic outside this header; memory
// of the block is declared with TUTTI_SHARED; a loop that waits for another thread calls poll_pause(); nothing lives in
// a thread that a destructor must end (a fault drops the thread where it stands).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)
#define TUTTI_DEVICE __device__ __forceinline__
#define TUTTI_DEVICE_APART __device__ __noinline__
#else
#include <atomic>
#include <bit>
#include <cmath>
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_APART inline
#endif

namespace tutti::ptx {

constexpr uint32_t kWarp = 32;               ///< threads that share an instruction stream
constexpr uint32_t kWholeWarp = 0xFFFFFFFF;  ///< a mask of threads: all of the warp

/// Who agrees on the order of an access: all threads of this GPU, or all GPUs and hosts.
enum class Scope { Device, System };

/// 16 bytes that one access moves. Only its bytes are meant: elements are copied in and out.
struct alignas(16) Pack {
  uint32_t words[4];
};

/// Two words that one access moves. Each of them becomes visible at once; which one first, nobody knows.
struct alignas(16) Words {
  uint64_t low, high;
};

#if !defined(__CUDACC__)
namespace host {

/// The place of a thread in its grid.
struct Thread {
  uint32_t thread, threads, block, blocks;
  unsigned char* dynamic_shared;
};

/// What a twin asks of the runtime that runs its block.
struct BlockRuntime {
  void (*sync)();               ///< barrier of the block's threads
  bool (*sync_or)(bool value);  ///< the same; whether any passed true
  void (*sync_warp)(uint32_t mask);
  uint64_t (*shuffle)(uint32_t mask, uint64_t value, uint32_t from_lane);  ///< the value of another of the warp
  uint32_t (*ballot)(uint32_t mask, bool value);                           ///< the lanes that passed true
  void (*pause)();                                                         ///< others run first
  void (*step)();                                                          ///< others may run first
  void (*trap)();                                                          ///< does not return
  void (*fence)(bool of_system);                                           ///< counts
  void (*moved)(const void* at, uint32_t bytes, bool stored);              ///< counts a part of a payload
  void* (*shared)(const void* key, size_t bytes, size_t alignment);        ///< the block's variable called `key`
  /// The places that a multicast address stands for, and how many they are.
  uint32_t (*multicast)(const void* address, size_t bytes, void** places);
};
constexpr uint32_t kMaxMulticast = 32;  ///< places

/// Set by the runtime, at load and at each change of thread. One system thread runs all threads of all grids.
inline const BlockRuntime* runtime = nullptr;
inline std::atomic<const Thread*> current{nullptr};
inline const Thread& self() { return *current.load(std::memory_order_relaxed); }

/// A kernel as the runtime finds it.
struct Twin {
  const char* name;
  uint32_t parameter_bytes, parameter_alignment;
  void (*run)(const void* parameters);
  uint32_t max_threads, min_blocks;  ///< as given to TUTTI_KERNEL; 0: not given
  Twin* next;
};
inline Twin* twins = nullptr;
struct Registration {
  Twin twin;
  Registration(const char* name, uint32_t bytes, uint32_t alignment, void (*run)(const void*), uint32_t max_threads,
               uint32_t min_blocks = 0)
      : twin{name, bytes, alignment, run, max_threads, min_blocks, twins} {
    twins = &twin;
  }
};

template <class T>
T& shared_variable(const void* key) {
  return *static_cast<T*>(runtime->shared(key, sizeof(T), alignof(T)));
}

template <class Word>
std::atomic_ref<Word> word(const Word* at) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
  runtime->step();
  return std::atomic_ref<Word>(*const_cast<Word*>(at));
}

}  // namespace host
#endif

// ---- threads and blocks -----------------------------------------------------------------------------------

#if defined(__CUDACC__)
// Read anew each time, rather than kept in a register, with all that is computed from it.
TUTTI_DEVICE uint32_t thread_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}
TUTTI_DEVICE uint32_t block_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}
TUTTI_DEVICE uint32_t block_size() { return blockDim.x; }
TUTTI_DEVICE uint32_t grid_size() { return gridDim.x; }
/// Waits for all threads of the block. What they wrote before is visible to all after.
TUTTI_DEVICE void sync_block() { __syncthreads(); }
/// sync_block(); whether any thread of the block passed true.
TUTTI_DEVICE bool sync_block_or(bool value) { return __syncthreads_or(value) != 0; }
/// Waits for the threads of `mask`, which are of one warp. What they wrote before is visible to them after.
TUTTI_DEVICE void sync_warp(uint32_t mask = kWholeWarp) { __syncwarp(mask); }
/// The lanes of `mask` that passed true, as a mask. All lanes of `mask` call it.
TUTTI_DEVICE uint32_t ballot(uint32_t mask, bool value) { return __ballot_sync(mask, value); }
/// To be called in each turn of a loop that waits.
TUTTI_DEVICE void poll_pause() {}
/// Ends the kernel with a fault: what can only be an error of this library was passed to it.
TUTTI_DEVICE void trap() { asm volatile("trap;"); }
/// Memory of the block whose size the launch gives; 16-byte aligned.
TUTTI_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tutti_dynamic_shared[];
  return tutti_dynamic_shared;
}
/// Declares a variable of the block, not initialised: one object for all its threads.
#define TUTTI_SHARED(Type, name) __shared__ std::type_identity_t<Type> name
#else
// What each means stands beside the device's body.
TUTTI_DEVICE uint32_t thread_index() { return host::self().thread; }
TUTTI_DEVICE uint32_t block_size() { return host::self().threads; }
TUTTI_DEVICE uint32_t block_index() { return host::self().block; }
TUTTI_DEVICE uint32_t grid_size() { return host::self().blocks; }
TUTTI_DEVICE void sync_block() { host::runtime->sync(); }
TUTTI_DEVICE bool sync_block_or(bool value) { return host::runtime->sync_or(value); }
TUTTI_DEVICE void sync_warp(uint32_t mask = kWholeWarp) { host::runtime->sync_warp(mask); }
TUTTI_DEVICE uint32_t ballot(uint32_t mask, bool value) { return host::runtime->ballot(mask, value); }
TUTTI_DEVICE void poll_pause() { host::runtime->pause(); }
TUTTI_DEVICE void trap() { host::runtime->trap(); }
TUTTI_DEVICE unsigned char* dynamic_shared() { return host::self().dynamic_shared; }
#define TUTTI_SHARED(Type, name)    \
  static const char name##_key = 0; \
  auto& name = ::tutti::ptx::host::shared_variable<Type>(&name##_key)  // NOLINT(bugprone-macro-parentheses)
#endif

TUTTI_DEVICE uint32_t lane_index() { return thread_index() % kWarp; }

/// The value that lane `from_lane` passed. All lanes of `mask` call it. It orders no memory.
template <class T>
TUTTI_DEVICE T shuffle(uint32_t mask, T value, uint32_t from_lane) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
#if defined(__CUDACC__)
  return __shfl_sync(mask, value, from_lane);
#else
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = host::runtime->shuffle(mask, bits, from_lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

// ---- words: 4 or 8 bytes ----------------------------------------------------------------------------------

#if defined(__CUDACC__)
/// Defines the accesses of one scope to words of one size.
#define TUTTI_WORD_ACCESSES(SCOPE, scope, Word, bits, constraint)                                            \
  TUTTI_DEVICE Word load_relaxed_##scope(const Word* at) {                                                   \
    Word value;                                                                                              \
    asm volatile("ld.relaxed." #scope ".u" #bits " %0, [%1];" : "=" constraint(value) : "l"(at) : "memory"); \
    return value;                                                                                            \
  }                                                                                                          \
  TUTTI_DEVICE Word load_acquire_##scope(const Word* at) {                                                   \
    Word value;                                                                                              \
    asm volatile("ld.acquire." #scope ".u" #bits " %0, [%1];" : "=" constraint(value) : "l"(at) : "memory"); \
    return value;                                                                                            \
  }                                                                                                          \
  TUTTI_DEVICE void store_relaxed_##scope(Word* at, Word value) {                                            \
    asm volatile("st.relaxed." #scope ".u" #bits " [%0], %1;" : : "l"(at), constraint(value) : "memory");    \
  }                                                                                                          \
  TUTTI_DEVICE void store_release_##scope(Word* at, Word value) {                                            \
    asm volatile("st.release." #scope ".u" #bits " [%0], %1;" : : "l"(at), constraint(value) : "memory");    \
  }                                                                                                          \
  TUTTI_DEVICE Word exchange_relaxed_##scope(Word* at, Word value) {                                         \
    Word old;                                                                                                \
    asm volatile("atom.relaxed." #scope ".exch.b" #bits " %0, [%1], %2;"                                     \
                 : "=" constraint(old)                                                                       \
                 : "l"(at), constraint(value)                                                                \
                 : "memory");                                                                                \
    return old;                                                                                              \
  }                                                                                                          \
  TUTTI_DEVICE Word fetch_add_##scope(Word* at, Word value) {                                                \
    Word old;                                                                                                \
    asm volatile("atom.acq_rel." #scope ".add.u" #bits " %0, [%1], %2;"                                      \
                 : "=" constraint(old)                                                                       \
                 : "l"(at), constraint(value)                                                                \
                 : "memory");                                                                                \
    return old;                                                                                              \
  }
TUTTI_WORD_ACCESSES(System, sys, uint32_t, 32, "r")
TUTTI_WORD_ACCESSES(System, sys, uint64_t, 64, "l")
TUTTI_WORD_ACCESSES(Device, gpu, uint32_t, 32, "r")
TUTTI_WORD_ACCESSES(Device, gpu, uint64_t, 64, "l")
#undef TUTTI_WORD_ACCESSES
#define TUTTI_WORD_ACCESS(access, otherwise, ...) \
  if constexpr (scope == Scope::System) {         \
    return access##_sys(__VA_ARGS__);             \
  } else {                                        \
    return access##_gpu(__VA_ARGS__);             \
  }
#else
#define TUTTI_WORD_ACCESS(access, otherwise, ...) return otherwise;
#endif

/// No order but the word's own.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE Word load_relaxed(const Word* at) {
  TUTTI_WORD_ACCESS(load_relaxed, host::word(at).load(std::memory_order_relaxed), at)
}
/// What the writer of this value wrote before is visible to this thread's later accesses.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE Word load_acquire(const Word* at) {
  TUTTI_WORD_ACCESS(load_acquire, host::word(at).load(std::memory_order_acquire), at)
}
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE void store_relaxed(Word* at, std::type_identity_t<Word> value) {
  TUTTI_WORD_ACCESS(store_relaxed, host::word(at).store(value, std::memory_order_relaxed), at, value)
}
/// What this thread wrote before (and what others wrote before a barrier with it) is visible to who acquires the value.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE void store_release(Word* at, std::type_identity_t<Word> value) {
  TUTTI_WORD_ACCESS(store_release, host::word(at).store(value, std::memory_order_release), at, value)
}
/// All that this thread wrote and read before, and what others did before a barrier with it, comes before what it does
/// afterwards, to whom the scope names. (To twins fences are nothing: the stores that follow release.)
template <Scope scope = Scope::System>
TUTTI_DEVICE void fence() {
#if defined(__CUDACC__)
  if constexpr (scope == Scope::System) {
    asm volatile("fence.acq_rel.sys;" : : : "memory");
  } else {
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
  }
#else
  host::runtime->fence(scope == Scope::System);
#endif
}
/// A store that a fence orders after what came before it, or a barrier after what was read before that.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE void store_ordered(Word* at, std::type_identity_t<Word> value) {
  TUTTI_WORD_ACCESS(store_relaxed, host::word(at).store(value, std::memory_order_release), at, value)
}
/// The former value. It orders nothing.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE Word exchange_relaxed(Word* at, std::type_identity_t<Word> value) {
  TUTTI_WORD_ACCESS(exchange_relaxed, host::word(at).exchange(value, std::memory_order_relaxed), at, value)
}
/// The former value; acquires and releases.
template <Scope scope = Scope::System, class Word>
TUTTI_DEVICE Word fetch_add(Word* at, std::type_identity_t<Word> value) {
  TUTTI_WORD_ACCESS(fetch_add, host::word(at).fetch_add(value, std::memory_order_acq_rel), at, value)
}
#undef TUTTI_WORD_ACCESS

// ---- arithmetic -------------------------------------------------------------------------------------------

/// Between computations that compilers would else do side by side, with more values live than there are registers for.
TUTTI_DEVICE void one_by_one() { asm volatile("" ::: "memory"); }

/// What was computed from the value is computed again, rather than kept in registers until here.
TUTTI_DEVICE void forget(uint32_t& value) { asm volatile("" : "+r"(value)); }

/// Bits that are set.
TUTTI_DEVICE uint32_t ones(uint32_t bits) {
#if defined(__CUDACC__)
  return static_cast<uint32_t>(__popc(bits));
#else
  return static_cast<uint32_t>(std::popcount(bits));
#endif
}

/// 1/x with a relative error below 2^-20, for normal x in the middle of the range.
TUTTI_DEVICE double reciprocal_estimate(double x) {
#if defined(__CUDACC__)
  double y;
  asm volatile("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
#else
  return std::bit_cast<double>(std::bit_cast<uint64_t>(1 / x) >> 32 << 32);
#endif
}
/// a · b + c, rounded once.
TUTTI_DEVICE double fused(double a, double b, double c) {
#if defined(__CUDACC__)
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

}  // namespace tutti::ptx

// ---- kernels ----------------------------------------------------------------------------------------------

/// TUTTI_KERNEL(name, Arguments, max_threads[, min_blocks]) { body }: a kernel with a parameter, `arguments`.
/// max_threads: the largest block; min_blocks: how many must fit a multiprocessor.
#if defined(__CUDACC__)
#define TUTTI_KERNEL(name, Arguments, ...)                \
  static_assert(std::is_trivially_copyable_v<Arguments>); \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const __grid_constant__ Arguments arguments)
#else
#define TUTTI_KERNEL(name, Arguments, ...)                                                                   \
  static_assert(std::is_trivially_copyable_v<Arguments>);                                                    \
  extern "C" void name##_twin(const Arguments& arguments);                                                   \
  static const ::tutti::ptx::host::Registration name##_registration(                                         \
      #name, sizeof(Arguments), alignof(Arguments),                                                          \
      [](const void* parameters) { name##_twin(*static_cast<const Arguments*>(parameters)); }, __VA_ARGS__); \
  extern "C" void name##_twin(const Arguments& arguments)
#endif
