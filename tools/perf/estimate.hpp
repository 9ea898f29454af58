// How long the rest of a run will take, judged by what is done of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// Measurements of one size take about as long as each other, and of other sizes as a line through the least and the
/// most that were seen says: what a call takes, and what a byte takes.
class Estimate {
 public:
  /// Sizes of all measurements in their order.
  explicit Estimate(std::vector<uint64_t> bytes) : bytes_(std::move(bytes)) {}

  /// The next one is done; it took so long.
  void done(double seconds);
  /// Seconds that are left; nothing before the first one is done.
  std::optional<double> left() const;

 private:
  double predict(uint64_t bytes) const;

  std::vector<uint64_t> bytes_;
  size_t next_ = 0;
  std::map<uint64_t, double> seconds_;  // by bytes: what the latest of them took
};

/// "40 s", "3 min", "2 h".
std::string rough_time(double seconds);

}  // namespace tutti::tools
