// e^x for loops over floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tutti::train {

/// e^x to 2 units in the last place, without branches, so that compilers vectorise loops of it: 2^n · e^r with
/// x = n·ln 2 + r, and Cephes' polynomial for e^r.
inline float exponential(float x) {
  constexpr float kRound = 12582912;  // 1.5 · 2^23: adding it rounds to an integer
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

}  // namespace tutti::train
