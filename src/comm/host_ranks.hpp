// The ranks of this host, as all communicators of this process know them together. Whether ranks outnumber cores is a
// matter of the host: two halves of a job share its cores as the whole job does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "topo/cores.hpp"

namespace tutti::comm {

/// The cores on which each rank of a process may run, by process (ProcessId::nonce).
using RanksByProcess = std::map<uint64_t, std::vector<Cores>>;

/// Adds the ranks of a communicator, for as long as the result lives.
std::shared_ptr<const RanksByProcess> note_host_ranks(RanksByProcess ranks);

/// The cores of each rank of this host: of those in `ranks` and of all that are noted. A process counts with the most
/// ranks that it has in one communicator.
std::vector<Cores> known_host_ranks(const RanksByProcess& ranks = {});

}  // namespace tutti::comm
