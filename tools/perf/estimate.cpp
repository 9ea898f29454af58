#include "tools/perf/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::tools {

void Estimate::done(double seconds) {
  if (next_ < bytes_.size()) seconds_[bytes_[next_++]] = seconds;
}

std::optional<double> Estimate::left() const {
  if (seconds_.empty()) return std::nullopt;
  double all = 0;
  for (size_t i = next_; i < bytes_.size(); ++i) all += predict(bytes_[i]);
  return all;
}

double Estimate::predict(uint64_t bytes) const {
  if (const auto known = seconds_.find(bytes); known != seconds_.end()) return known->second;
  const auto& [least, first] = *seconds_.begin();
  const auto& [most, last] = *seconds_.rbegin();
  const double slope = most > least ? std::max(0.0, last - first) / static_cast<double>(most - least) : 0;
  return std::max(0.0, first + slope * (static_cast<double>(bytes) - static_cast<double>(least)));
}

std::string rough_time(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} h", seconds / 3600);
}

}  // namespace tutti::tools
