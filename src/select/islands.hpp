// How the network between hosts is wired, concluded from what pairs of hosts reach together.
//
// In each round of a round-robin schedule all hosts exchange data in pairs, at the same time. Where a pair is slower
// than it is alone, other pairs use a link on its way too. Hosts are clustered in islands so that pairs inside an
// island are not slower; what all pairs out of an island reach together is the rate of its link. A host may reach more
// with all others at once than with any one of them: then several cables lead to it.
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
/// at_once[h]: of all bytes of host h in one direction, while it exchanges data with all others at the same time.
/// Of many hosts pairs were not measured alone; then each pair is taken to reach alone what both of its hosts reach
/// elsewhere, and slow cables between two hosts may be taken for islands.
MeasuredHosts wiring_of(const std::vector<std::string>& names, std::vector<MeasuredPair> pairs,
                        const std::vector<std::vector<double>>& together, const std::vector<double>& at_once,
                        bool pairs_alone = true);

}  // namespace tutti::select
