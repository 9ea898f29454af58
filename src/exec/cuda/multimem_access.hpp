// Multicast memory, beside device.hpp: an address there stands for the same place in the memory of several GPUs. A
// store reaches all of them; a load gets what the switch between them makes of all their values. Only the functions of
// this file may access such an address (PTX ISA, multimem.ld_reduce, multimem.st; compute capability 9.0).
#pragma once

#include <cstdint>
#include <cstring>

#include "exec/cuda/device.hpp"
#include "exec/cuda/fold.hpp"
#include "exec/cuda/multimem_call.hpp"
#include "exec/cuda/packs.hpp"

namespace tutti::exec::cuda {

#if defined(__CUDACC__)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TUTTI_MULTIMEM(code) code
#else
#define TUTTI_MULTIMEM(code) __trap();  // not built: transports/cuda/CMakeLists.txt
#endif

/// Orders accesses to multicast addresses and to ordinary ones of the same memory (PTX ISA, fence.proxy.alias).
TUTTI_DEVICE void fence_aliases() { asm volatile("fence.proxy.alias;" : : : "memory"); }

/// `at` is a multiple of 16.
TUTTI_DEVICE void store_to_all(void* at, const ptx::Pack& pack) {
  TUTTI_MULTIMEM(asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
                              :
                              : "l"(at), "r"(pack.words[0]), "r"(pack.words[1]), "r"(pack.words[2]), "r"(pack.words[3])
                              : "memory");)
}
/// A word. What this thread wrote before (and what others wrote before a barrier with it) is visible to who acquires
/// it.
TUTTI_DEVICE void release_to_all(uint64_t* at, uint64_t value) {
  TUTTI_MULTIMEM(asm volatile("multimem.st.release.sys.global.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");)
}

#define TUTTI_MULTIMEM_LOAD "multimem.ld_reduce.relaxed.sys.global."
#define TUTTI_MULTIMEM_PACK(operation)                                                              \
  asm volatile(TUTTI_MULTIMEM_LOAD operation " {%0, %1, %2, %3}, [%4];"                             \
               : "=r"(pack.words[0]), "=r"(pack.words[1]), "=r"(pack.words[2]), "=r"(pack.words[3]) \
               : "l"(at)                                                                            \
               : "memory");
#define TUTTI_MULTIMEM_WORDS_32(operation)                                                                       \
  for (uint32_t i = 0; i < 4; ++i) {                                                                             \
    asm volatile(TUTTI_MULTIMEM_LOAD operation " %0, [%1];" : "=r"(pack.words[i]) : "l"(at + 4 * i) : "memory"); \
  }
#define TUTTI_MULTIMEM_WORDS_64(operation)                                                              \
  for (uint32_t i = 0; i < 4; i += 2) {                                                                 \
    uint64_t word;                                                                                      \
    asm volatile(TUTTI_MULTIMEM_LOAD operation " %0, [%1];" : "=l"(word) : "l"(at + 4 * i) : "memory"); \
    pack.words[i] = static_cast<uint32_t>(word);                                                        \
    pack.words[i + 1] = static_cast<uint32_t>(word >> 32);                                              \
  }
#define TUTTI_MULTIMEM_BODY(T, kOp, shape, operation) \
  ptx::Pack pack{};                                   \
  TUTTI_MULTIMEM(TUTTI_MULTIMEM_##shape(operation))   \
  return pack;
#else
namespace detail {
/// The places that a multicast address stands for, in some order.
struct Places {
  explicit Places(const void* address, size_t bytes)
      : count(ptx::host::runtime->multicast(address, bytes, reinterpret_cast<void**>(at))) {}
  unsigned char* at[ptx::host::kMaxMulticast];
  const uint32_t count;
};

/// As a switch folds them: in some order, and narrowed once.
template <class T, Op kOp>
ptx::Pack fold_places(const unsigned char* at) {
  using Stored = typename T::Stored;
  constexpr uint32_t kElements = sizeof(ptx::Pack) / sizeof(Stored);
  const Places places(at, sizeof(ptx::Pack));
  typename T::Value values[kElements] = {};
  for (uint32_t i = 0; i < places.count; ++i) {
    const ptx::Pack pack = ptx::load_pack(places.at[i]);
    ptx::host::runtime->step();
    Stored elements[kElements];
    std::memcpy(elements, &pack, sizeof pack);
    for (uint32_t e = 0; e < kElements; ++e) {
      values[e] = i == 0 ? T::widen(elements[e]) : combine<typename T::Value, kOp>(values[e], T::widen(elements[e]));
    }
  }
  Stored folded[kElements];
  for (uint32_t e = 0; e < kElements; ++e) folded[e] = T::narrow(values[e]);
  ptx::Pack pack;
  std::memcpy(&pack, folded, sizeof pack);
  return pack;
}
}  // namespace detail
#define TUTTI_MULTIMEM_BODY(T, kOp, shape, operation) return detail::fold_places<T, kOp>(at);

TUTTI_DEVICE void fence_aliases() {}

TUTTI_DEVICE void store_to_all(void* at, const ptx::Pack& pack) {
  const detail::Places places(at, sizeof pack);
  for (uint32_t i = 0; i < places.count; ++i) {
    ptx::store_pack(places.at[i], pack);
    ptx::host::runtime->step();
  }
}
TUTTI_DEVICE void release_to_all(uint64_t* at, uint64_t value) {
  const detail::Places places(at, sizeof value);
  for (uint32_t i = 0; i < places.count; ++i) ptx::store_release(reinterpret_cast<uint64_t*>(places.at[i]), value);
}
#endif

/// load(at): what the switch makes of the 16 bytes at `at`, a multiple of 16.
#define TUTTI_MULTIMEM_STRUCT(name, T, kOp, shape, operation)                                                     \
  struct Multimem_##name {                                                                                        \
    TUTTI_DEVICE static ptx::Pack load(const unsigned char* at) { TUTTI_MULTIMEM_BODY(T, kOp, shape, operation) } \
  };
TUTTI_MULTIMEM_OPERATIONS(TUTTI_MULTIMEM_STRUCT)
#undef TUTTI_MULTIMEM_STRUCT
#undef TUTTI_MULTIMEM_BODY

}  // namespace tutti::exec::cuda
