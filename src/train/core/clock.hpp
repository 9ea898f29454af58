// Seconds of a clock that never goes back.
#pragma once

#include <chrono>

namespace tutti::train {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds for which waiting for something took.
template <class Waiting>
double seconds_of(Waiting&& waiting) {
  const double start = now();
  waiting();
  return now() - start;
}

}  // namespace tutti::train
