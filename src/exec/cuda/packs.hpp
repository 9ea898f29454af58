// Accesses of 16 bytes, and of lines of 128.
#pragma once

#include <cstdint>

#include "exec/cuda/device.hpp"

namespace tutti::ptx {

/// Ordinary accesses, for data that flags guard. `at` is a multiple of 16.
TUTTI_DEVICE Pack load_pack(const void* at) {
#if defined(__CUDACC__)
  const uint4 value = *static_cast<const uint4*>(at);
  return {{value.x, value.y, value.z, value.w}};
#else
  host::runtime->moved(at, sizeof(Pack), false);
  return *static_cast<const Pack*>(at);
#endif
}
/// The same, begun here: not where the value is used, nor where it turns out to be. What the thread itself has stored
/// since the last barrier must not be loaded so.
TUTTI_DEVICE Pack begin_load(const void* at) {
#if defined(__CUDACC__)
  Pack pack;
  asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(pack.words[0]), "=r"(pack.words[1]), "=r"(pack.words[2]), "=r"(pack.words[3])
               : "l"(at));
  return pack;
#else
  return load_pack(at);
#endif
}
TUTTI_DEVICE void store_pack(void* at, const Pack& pack) {
#if defined(__CUDACC__)
  *static_cast<uint4*>(at) = make_uint4(pack.words[0], pack.words[1], pack.words[2], pack.words[3]);
#else
  host::runtime->moved(at, sizeof(Pack), true);
  *static_cast<Pack*>(at) = pack;
#endif
}

/// A pack that lies anywhere, or, at the end of a buffer, the first `left` bytes of one; the rest is zero.
TUTTI_DEVICE Pack load_anywhere(const unsigned char* at, uint64_t left) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  if (left >= sizeof(Pack) && address % sizeof(Pack) == 0) return begin_load(at);
  Pack pack = {};
  TUTTI_HD_UNROLLED
  for (uint32_t i = 0; i < 4; ++i) {
    if (left >= sizeof(Pack) && address % sizeof(uint32_t) == 0) {
      pack.words[i] = reinterpret_cast<const uint32_t*>(at)[i];
      continue;
    }
    TUTTI_HD_UNROLLED
    for (uint32_t byte = 0; byte < 4; ++byte) {
      if (4 * i + byte < left) pack.words[i] |= uint32_t{at[4 * i + byte]} << 8 * byte;
    }
  }
  return pack;
}
/// Stores no more than the first `left` bytes of the pack.
TUTTI_DEVICE void store_anywhere(unsigned char* at, const Pack& pack, uint64_t left) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  if (left >= sizeof(Pack) && address % sizeof(Pack) == 0) return store_pack(at, pack);
  TUTTI_HD_UNROLLED
  for (uint32_t i = 0; i < 4; ++i) {
    if (left >= sizeof(Pack) && address % sizeof(uint32_t) == 0) {
      reinterpret_cast<uint32_t*>(at)[i] = pack.words[i];
      continue;
    }
    TUTTI_HD_UNROLLED
    for (uint32_t byte = 0; byte < 4; ++byte) {
      if (4 * i + byte < left) at[4 * i + byte] = static_cast<unsigned char>(pack.words[i] >> 8 * byte);
    }
  }
}

/// Both words, relaxed, system scope.
TUTTI_DEVICE Words load_words(const Words* at) {
#if defined(__CUDACC__)
  Words words;
  asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];" : "=l"(words.low), "=l"(words.high) : "l"(at) : "memory");
  return words;
#else
  const uint64_t high = load_relaxed(&at->high);  // the twin takes the less obvious order
  return {load_relaxed(&at->low), high};
#endif
}
/// load_words() of several places, all of which are on their way before any is waited for. (Of statements of their own
/// the compiler waits for one before it begins the next.)
template <uint32_t kCount>
TUTTI_DEVICE void load_together(const Words* const (&at)[kCount], Words (&loaded)[kCount]) {
#if defined(__CUDACC__)
  if constexpr (kCount == 4) {
    asm volatile(
        "ld.relaxed.sys.v2.u64 {%0, %1}, [%8];\n\t"
        "ld.relaxed.sys.v2.u64 {%2, %3}, [%9];\n\t"
        "ld.relaxed.sys.v2.u64 {%4, %5}, [%10];\n\t"
        "ld.relaxed.sys.v2.u64 {%6, %7}, [%11];"
        : "=&l"(loaded[0].low), "=&l"(loaded[0].high), "=&l"(loaded[1].low), "=&l"(loaded[1].high),
          "=&l"(loaded[2].low), "=&l"(loaded[2].high), "=&l"(loaded[3].low), "=&l"(loaded[3].high)
        : "l"(at[0]), "l"(at[1]), "l"(at[2]), "l"(at[3])
        : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile(
        "ld.relaxed.sys.v2.u64 {%0, %1}, [%4];\n\t"
        "ld.relaxed.sys.v2.u64 {%2, %3}, [%5];"
        : "=&l"(loaded[0].low), "=&l"(loaded[0].high), "=&l"(loaded[1].low), "=&l"(loaded[1].high)
        : "l"(at[0]), "l"(at[1])
        : "memory");
  } else {
    static_assert(kCount == 1);
    loaded[0] = load_words(at[0]);
  }
#else
  for (uint32_t i = 0; i < kCount; ++i) loaded[i] = load_words(at[i]);
#endif
}
TUTTI_DEVICE void store_words(Words* at, const Words& words) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" : : "l"(at), "l"(words.low), "l"(words.high) : "memory");
#else
  store_relaxed(&at->low, words.low);
  store_relaxed(&at->high, words.high);
#endif
}

/// The same, of a line of 128 bytes that store_ll128() stored: the threads of a warp load their parts of four lines at
/// once. One thread's load may come before the line's store and another's after it, so a part counts only if it was
/// loaded after a barrier of the warp that follows the load which found the flag.
template <uint32_t kCount>
TUTTI_DEVICE void load_ll128(const Words* const (&at)[kCount], Words (&loaded)[kCount]) {
#if defined(__CUDACC__)
  load_together(at, loaded);
#else
  const bool has_flag = thread_index() % 8 == 7;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint64_t low = load_relaxed(&at[i]->low);
    loaded[i] = {low, has_flag ? load_acquire(&at[i]->high) : load_relaxed(&at[i]->high)};
  }
#endif
}

/// A line of 128 bytes, stored at once by eight neighbours of a warp, `lanes`: each stores its part, and the upper word
/// of the last one's is the line's flag. A reader that acquires the flag has the rest. It needs a path that keeps such
/// stores whole, as NVLink does; the block has whole warps.
TUTTI_DEVICE void store_ll128(Words* at, const Words& part, uint32_t lanes) {
  sync_warp(lanes);
#if defined(__CUDACC__)
  store_words(at, part);
#else
  const bool has_flag = thread_index() % 8 == 7;
  store_relaxed(&at->low, part.low);
  if (!has_flag) store_relaxed(&at->high, part.high);
  sync_warp(lanes);
  if (has_flag) store_release(&at->high, part.high);
#endif
}

}  // namespace tutti::ptx
