// Which ranks come last to calls, for whom others wait, and what that costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/calls.hpp"

namespace tutti::tools {

/// A rank that was the last to enter some calls. It is late by the time since the median of the other ranks' entries.
struct LateRank {
  int64_t rank = 0;
  size_t calls = 0;        ///< that it entered last, of those compared
  double late_by = 0;      ///< seconds, the median over these
  double others_lost = 0;  ///< seconds that all others together spent in calls before it came; estimated, see Lateness
};

/// Waits of a rank for another one, in calls that all had entered.
struct PeerWait {
  int64_t rank = 0, peer = 0;
  double seconds = 0;
};

/// Calls of one collective on one communicator. Compared are those that all of its ranks have traced; of short calls in
/// a row these are few, and stand for the others: seconds are theirs, times `weight`.
struct Lateness {
  std::string communicator, title, name;
  size_t calls = 0, ranks = 0;  ///< calls that are compared
  double weight = 1;            ///< calls of the communicator, by their numbers, for one that is compared
  double span = 0;              ///< seconds from the first entry to the last
  std::vector<LateRank> last;   ///< those that cost the others most come first
  std::vector<PeerWait> waits;  ///< likewise
};

/// In the order of what lateness costs. Times must be of one clock.
std::vector<Lateness> lateness(const std::vector<ProcessCalls>& processes);

/// How a rank spends its time.
struct RankShares {
  std::string communicator, title, host;
  int64_t rank = 0;
  uint32_t process = 0;
  size_t calls = 0;      ///< that it has traced
  bool sampled = false;  ///< it has made more than these
  double span = 0;       ///< seconds from its first call to the end of its last
  double in_calls = 0;   ///< seconds in calls that are traced
  double waiting = 0;    ///< seconds of them in long waits
};
std::vector<RankShares> shares(const std::vector<ProcessCalls>& processes);

}  // namespace tutti::tools
