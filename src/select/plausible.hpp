// Which figures of this host's links can be right: measured on a busy machine, some cannot.
#pragma once

#include <algorithm>
#include <string>

#include "base/format.hpp"
#include "select/profile.hpp"

namespace tutti::select {

struct Limits {
  double least = 0, most = 0;
  /// False for what is not a number, too.
  constexpr bool hold(double value) const { return value >= least && value <= most; }
};

inline constexpr Limits kLineSeconds{3e-9, 2e-6};        ///< of a cache line from one core to another
inline constexpr Limits kSwitchSeconds{0.05e-6, 50e-6};  ///< of a switch of threads
inline constexpr Limits kCopyRate{0.3e9, 500e9};         ///< bytes copied, or folded, a second

/// What of a link between threads or processes of a host cannot be right, even on a busy machine; "": nothing.
inline std::string implausible(const MeasuredLink& link) {
  constexpr double kLongest = 10e-3;  // seconds
  if (!Limits{kLineSeconds.least, kLongest}.hold(link.alpha))
    return fmt::format("an empty message in {:.3g} us", link.alpha * 1e6);
  if (!Limits{1 / kCopyRate.most, 1}.hold(link.beta)) return fmt::format("messages at {:.3g} GB/s", 1e-9 / link.beta);
  return "";
}

/// What of it says that others had the processors meanwhile; "": nothing. Its ranks are `sharing` a core: they take
/// turns, and each may wait for a switch.
inline std::string disturbed(const MeasuredLink& link, double sharing) {
  if (link.alpha > kSwitchSeconds.most * std::max(1.0, sharing))
    return fmt::format("an empty message took {:.3g} us", link.alpha * 1e6);
  if (1 / link.beta < kCopyRate.least) return fmt::format("messages had {:.3g} GB/s", 1e-9 / link.beta);
  return "";
}

/// Can folding take so many seconds per byte? Where it takes no longer than copying, it cannot be told apart.
inline bool is_plausible_fold(double gamma) { return kCopyRate.hold(1 / gamma); }

}  // namespace tutti::select
