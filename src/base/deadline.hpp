// The moment at which a wait times out.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// `seconds` from now; values too large for the clock mean "in about a century".
  static Deadline in(double seconds) {
    constexpr double kCentury = 3e9;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(std::clamp(seconds, 0.0, kCentury))));
  }
  bool passed() const { return Clock::now() >= at_; }
  /// Seconds left, never negative.
  double left() const { return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count()); }
  /// Milliseconds left for poll(2), rounded up, at most `most`.
  int poll_ms(int most = 1000) const { return static_cast<int>(std::min<double>(most, left() * 1e3 + 1)); }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

/// Of a wait that may take so many seconds without progress.
class Patience {
 public:
  explicit Patience(double seconds) : seconds_(seconds), end_(Deadline::in(seconds)) {}
  void renew() { end_ = Deadline::in(seconds_); }
  const Deadline& end() const { return end_; }
  double seconds() const { return seconds_; }

 private:
  double seconds_;
  Deadline end_;
};

}  // namespace tutti
