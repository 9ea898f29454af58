// Numbers that look random and are the same on every rank.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::train {

/// splitmix64 (Steele, Lea & Flood, OOPSLA 2014).
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// FNV-1a.
inline uint64_t hash(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return h;
}

}  // namespace tutti::train
