// The clocks of a job's hosts, brought together by what its calls say: no rank leaves a call before the data has come
// that it waits for, so the sender had entered it before.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/trace/calls.hpp"

namespace tutti::tools {

/// By how much of the time clocks are taken to drift apart at most: as a rule it is a tenth of that.
inline constexpr double kDrift = 50e-6;

struct HostClock {
  int64_t offset = 0;    ///< nanoseconds to add to the host's times
  int64_t error = 0;     ///< a time is wrong by this much at most, if clocks drift by no more than kDrift
  bool by_calls = true;  ///< else it is from the hosts' own clocks of the day, whose error is not known
};

/// By host; the first process's host is the reference. Each call bounds the difference of two clocks from one side, and
/// calls of both directions from both (Duda, Harrus, Haddad, Bernard: Estimating Global Time in Distributed Systems,
/// ICDCS 1987); what follows from bounds between third hosts is taken along. The offset is the middle of its bounds, in
/// the middle of the trace: what is known of other moments is known the less the further they are from there.
std::map<std::string, HostClock> host_clocks(const std::vector<ProcessCalls>& processes);

/// Adds the offsets to all times.
void shift(std::vector<ProcessCalls>& processes, const std::map<std::string, HostClock>& clocks);

}  // namespace tutti::tools
