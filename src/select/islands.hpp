// How the network between hosts is wired, concluded from what pairs of hosts reach together.
//
// In each round of a round-robin schedule all hosts exchange data in pairs, at the same time. Where a pair is slower
// than both of its hosts are in other rounds, other pairs use a link on its way too. Hosts are clustered in islands so
// that pairs inside an island are not slower; what all pairs out of an island reach together is the rate of its link.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "select/measured_hosts.hpp"

namespace tutti::select {

using HostPair = std::pair<size_t, size_t>;

/// Every pair of n hosts once, in n − 1 rounds (n, if n is odd) of pairs without common hosts.
std::vector<std::vector<HostPair>> round_robin(size_t n);

/// With the hosts' links and islands. `pairs`: each pair of these hosts while no others were under way.
/// together[r][i]: seconds per byte of the i-th pair of round r of round_robin(), while all of the round were.
MeasuredHosts wiring_of(const std::vector<std::string>& names, std::vector<MeasuredPair> pairs,
                        const std::vector<std::vector<double>>& together);

}  // namespace tutti::select
