// How `tutti tune` times calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tutti/tutti.hpp"

namespace tutti::tools {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds on the system's clock.
inline double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The same on all ranks: the slowest rank's.
inline double of_slowest(Communicator& comm, double seconds) {
  double most = 0;
  check(tuttiAllReduce(&seconds, &most, 1, tuttiFloat64, tuttiMax, comm.handle(), nullptr));
  return most;
}

/// Seconds of a call on the slowest rank: the best batch's, which others on a busy machine have disturbed least. A
/// first guess may be far too long, so the best time so far decides each batch's length. More batches follow until two
/// agree. `run(calls)` makes so many calls and waits for them.
template <class Run>
double time_of(Communicator& comm, const Run& run) {
  constexpr int kBatches = 5, kMaxBatches = 20;
  constexpr double kBatchSeconds = 3e-3, kMaxCalls = 2000;
  constexpr double kAgreed = 1.1;                     // times of two batches, as a ratio
  constexpr double kSlowCall = 0.3, kMaxSeconds = 3;  // of a call that needs no second warm-up; of all batches
  const auto batch = [&](uint64_t calls) {
    check(tuttiBarrier(comm.handle(), nullptr));
    const double start = now();
    run(calls);
    return of_slowest(comm, (now() - start) / static_cast<double>(calls));
  };
  double best = batch(2), second = std::numeric_limits<double>::infinity(), spent = 0;
  if (best < kSlowCall) best = batch(2);
  for (int i = 0; i < kMaxBatches && spent < kMaxSeconds && (i < kBatches || second > kAgreed * best); ++i) {
    const double calls = std::clamp(std::floor(kBatchSeconds / best), 1.0, kMaxCalls);
    const double time = batch(static_cast<uint64_t>(calls));
    spent += calls * time;
    second = std::min(second, std::max(time, best));
    best = std::min(best, time);
  }
  return best;
}

}  // namespace tutti::tools
