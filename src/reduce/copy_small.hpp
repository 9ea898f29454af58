// Copies of a few bytes, word by word.
//
// To call memcpy takes longer than to copy eight bytes. And what a processor has just stored can be loaded again at
// once only by a load that lies within one store that was not masked: words from a word or a whole vector, but no
// vector from words. Any other load waits until all stores before it have left for the cache, those to lines that other
// cores hold included.
#pragma once

#include <bit>
#include <cstdint>

#include "base/hd.hpp"

namespace tutti {

inline constexpr uint64_t kSmallBytes = 64;  ///< up to so many, this is the way to copy them

template <class T>
TUTTI_HD inline T load_as(const unsigned char* from) {
  T word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

/// destination[0, bytes) = source[0, bytes), which do not overlap.
TUTTI_HD inline void copy_small(void* destination, const void* source, uint64_t bytes) {
  auto* to = static_cast<unsigned char*>(destination);
  const auto* from = static_cast<const unsigned char*>(source);
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    __builtin_memcpy(to, from, 8);
    asm volatile("" ::: "memory");  // or compilers make vectors, or a call of memcpy, of this loop
  }
  if ((bytes & 4) != 0) __builtin_memcpy(to, from, 4), to += 4, from += 4;
  if ((bytes & 2) != 0) __builtin_memcpy(to, from, 2), to += 2, from += 2;
  if ((bytes & 1) != 0) *to = *from;
}

/// Up to 8 bytes as the first ones of a word; the others are zero.
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
