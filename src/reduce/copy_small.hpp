// Copies of a few bytes, word by word.
//
// A call of memcpy takes longer than copying eight bytes. And a load gets recently stored bytes at once (store
// forwarding) only if it lies within one unmasked store: a word from a word or a vector, but no vector from words. Any
// other load waits until all earlier stores have reached the cache, also those to lines that other cores hold.
#pragma once

#include <bit>
#include <cstdint>

#include "base/hd.hpp"

namespace tutti {

template <class T>
TUTTI_HD inline T load_as(const unsigned char* from) {
  T word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

/// destination[0, bytes) = source[0, bytes), which do not overlap. On a device both are aligned to 8 bytes.
TUTTI_HD inline void copy_small(void* destination, const void* source, uint64_t bytes) {
  auto* to = static_cast<unsigned char*>(destination);
  const auto* from = static_cast<const unsigned char*>(source);
#if defined(__CUDA_ARCH__)
  to = static_cast<unsigned char*>(__builtin_assume_aligned(to, 8));  // else it would move single bytes
  from = static_cast<const unsigned char*>(__builtin_assume_aligned(from, 8));
#endif
  TUTTI_HD_ROLLED
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    __builtin_memcpy(to, from, 8);
    asm volatile("" ::: "memory");  // keeps compilers from turning this loop into vectors or a call of memcpy
  }
  if ((bytes & 4) != 0) __builtin_memcpy(to, from, 4), to += 4, from += 4;
  if ((bytes & 2) != 0) __builtin_memcpy(to, from, 2), to += 2, from += 2;
  if ((bytes & 1) != 0) *to = *from;
}

/// A word whose first `bytes` ≤ 8 bytes are loaded; the others are zero.
inline uint64_t load_small(const void* source, uint64_t bytes) {
  static_assert(std::endian::native == std::endian::little);
  const auto* from = static_cast<const unsigned char*>(source);
  if (bytes == 8) return load_as<uint64_t>(from);
  uint64_t word = 0, at = 0;
  if ((bytes & 4) != 0) word = load_as<uint32_t>(from), at = 4;
  if ((bytes & 2) != 0) word |= uint64_t{load_as<uint16_t>(from + at)} << 8 * at, at += 2;
  if ((bytes & 1) != 0) word |= uint64_t{from[at]} << 8 * at;
  return word;
}

}  // namespace tutti
