// A small, fast, unkeyed 64-bit hash for tables and fingerprints; not secure.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

/// Mixes all bits of x (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// 2^64 / golden ratio, odd: a product with it is mixed in the high bits (Fibonacci hashing; Knuth, TAOCP 3, 6.4).
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;

class Hash {
 public:
  constexpr Hash& add(uint64_t x) {
    state_ = mix(state_ + kGoldenRatio + x);
    return *this;
  }
  constexpr Hash& add(std::string_view text) {
    for (const char c : text) add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
    return add(text.size());
  }
  constexpr uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x7475747469000000u;
};

}  // namespace tutti
