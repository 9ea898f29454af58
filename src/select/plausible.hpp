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

/// Of an empty message between ranks that are `sharing` a core: they take turns, and each may wait for a switch.
inline Limits message_seconds(double sharing) {
  return {kLineSeconds.least, kSwitchSeconds.most * std::max(1.0, sharing)};
}

/// What of a link between threads or processes of a host cannot be right; "": nothing. Its ranks are `sharing` a core.
inline std::string implausible(const MeasuredLink& link, double sharing) {
  if (!message_seconds(sharing).hold(link.alpha)) return fmt::format("an empty message in {:.3g} us", link.alpha * 1e6);
  if (!kCopyRate.hold(1 / link.beta)) return fmt::format("messages at {:.3g} GB/s", 1e-9 / link.beta);
  return "";
}

/// Can folding take so many seconds per byte? Where it takes no longer than copying, it cannot be told apart.
inline bool is_plausible_fold(double gamma) { return kCopyRate.hold(1 / gamma); }

}  // namespace tutti::select
