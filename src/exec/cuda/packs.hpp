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
TUTTI_DEVICE void store_words(Words* at, const Words& words) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" : : "l"(at), "l"(words.low), "l"(words.high) : "memory");
#else
  store_relaxed(&at->low, words.low);
  store_relaxed(&at->high, words.high);
#endif
}

/// The same, of a line of 128 bytes that store_whole() stored: the threads of a warp load their parts of four lines at
/// once, so those whose line has its flag have the bytes that came with it. All of the warp call it.
TUTTI_DEVICE Words load_whole(const Words* at) {
#if defined(__CUDACC__)
  return load_words(at);
#else
  const bool has_flag = thread_index() % 8 == 7;
  const uint64_t flag = has_flag ? load_acquire(&at->high) : 0;  // first: what comes later does no harm
  sync_warp();
  const Words words = load_words(at);
  return {words.low, has_flag ? flag : words.high};
#endif
}

/// A line of 128 bytes, stored at once by eight neighbours of a warp, `lanes`: each stores its part, and the upper word
/// of the last one's is the line's flag. A reader that acquires the flag has the rest. It needs a path that keeps such
/// stores whole, as NVLink does; the block has whole warps.
TUTTI_DEVICE void store_whole(Words* at, const Words& part, uint32_t lanes) {
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
