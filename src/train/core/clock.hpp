// Seconds of a clock that never goes back.
#pragma once

#include <chrono>

namespace tutti::train {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tutti::train
