// Measures the network between hosts.
#pragma once

#include "select/measured_hosts.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {

/// All ranks call it; the first rank of each host measures. In each round of a round-robin schedule
/// (select/islands.hpp), pairs of hosts exchange messages: one pair after the other, if there are at most 16 hosts, and
/// then all at the same time. Some 0.4 s for each pair of few hosts, and 1 s for each host; longer where less than
/// 1 MB/s goes through. The result is the same on all ranks. Hosts of one name cannot be told apart in it:
/// they are a pair of a host with itself.
select::MeasuredHosts measure_hosts(Communicator& comm);

}  // namespace tutti::tools
