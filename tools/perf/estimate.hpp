// Estimates the remaining time of a run from the part that is done.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// Measurements of one size take about equally long. Other sizes are interpolated linearly between the smallest and the
/// largest measured size: a constant per call and a constant per byte.
class Estimate {
 public:
  /// Sizes of all measurements, in order.
  explicit Estimate(std::vector<uint64_t> bytes) : bytes_(std::move(bytes)) {}

  /// The next measurement has been done and took this long.
  void done(double seconds);
  /// Remaining seconds; empty before the first measurement is done.
  std::optional<double> left() const;

 private:
  double predict(uint64_t bytes) const;

  std::vector<uint64_t> bytes_;
  size_t next_ = 0;
  std::map<uint64_t, double> seconds_;  // by bytes: the latest measurement
};

/// "40 s", "3 min", "2 h".
std::string rough_time(double seconds);

}  // namespace tutti::tools
