// Times that others disturb: how long a message must be, and whether a figure can be trusted.
//
// Who shares a core or a cable makes a measurement slower, and never faster. So of several figures the least one
// counts, if another one is like it. On a loaded machine a rank may also wait for a core at every message, tens of
// milliseconds whatever its length; then time per byte says nothing unless the message is so long that its bytes take
// longer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::tools {

/// Figures that differ by no more are alike.
inline constexpr double kAlike = 1.5;

/// Are the two least figures alike? A figure of 0 was not taken.
inline bool is_settled(std::vector<double> figures) {
  std::erase(figures, 0.0);
  if (figures.size() < 2) return false;
  std::partial_sort(figures.begin(), figures.begin() + 2, figures.end());
  return figures[1] <= kAlike * figures[0];
}

/// The least figure. A figure of 0 was not taken.
inline double least_of(std::vector<double> figures) {
  std::erase(figures, 0.0);
  return figures.empty() ? 0 : *std::min_element(figures.begin(), figures.end());
}

/// What a search for a length starts and ends with.
struct Search {
  size_t first, longest;  ///< lengths
  double seconds;         ///< that a message is to take
  size_t probes;          ///< messages of a length, of which the fastest counts
};

struct Length {
  size_t count = 0;
  bool is_decisive = false;  ///< twice the bytes took longer by half at least, so bytes decide the time
};

/// Doubles the length until the fastest message takes long enough, and takes longer by half at least than the fastest
/// of half the length. `timed(length)`: seconds of a message.
template <class Timed>
Length long_enough(const Timed& timed, const Search& search) {
  const auto fastest = [&](size_t count) {
    double best = timed(count);
    for (size_t i = 1; i < search.probes && best >= search.seconds; ++i) best = std::min(best, timed(count));
    return best;
  };
  Length length{search.first, false};
  for (double before = fastest(length.count); length.count < search.longest;) {
    length.count *= 2;
    const double now = fastest(length.count);
    length.is_decisive = now >= kAlike * before;
    if (length.is_decisive && now >= search.seconds) break;
    before = now;
  }
  return length;
}

}  // namespace tutti::tools
