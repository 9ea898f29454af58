// The middle of some values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti {

/// Values in order. Of an even number of them the median is the mean of the two in the middle.
class Medians {
 public:
  explicit Medians(std::vector<double> values) : sorted_(std::move(values)) {
    std::sort(sorted_.begin(), sorted_.end());
  }

  /// There is at least one value.
  double of_all() const { return middle(sorted_.size(), sorted_.size()); }
  /// Of all but one that is `value`, which is there beside others.
  double of_others(double value) const {
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), value);
    return middle(sorted_.size() - 1, static_cast<size_t>(at - sorted_.begin()));
  }

 private:
  /// Of `count` values: all but that at `left_out`.
  double middle(size_t count, size_t left_out) const {
    const auto at = [&](size_t i) { return sorted_[i < left_out ? i : i + 1]; };
    return count % 2 == 1 ? at(count / 2) : (at(count / 2 - 1) + at(count / 2)) / 2;
  }

  std::vector<double> sorted_;
};

}  // namespace tutti
