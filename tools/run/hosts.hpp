// Assigns ranks to hosts.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Reads "a,b:4" and assigns `ranks` ranks to these hosts in order. A host with ":slots" takes at most that many; the
/// others share the rest evenly, earlier ones first. `ranks` 0: every slot, and one rank on hosts without a slot count.
/// "localhost", loopback addresses and this host's own name (`here`) become the empty host name. Throws
/// Error(InvalidArgument).
std::vector<Placement> place(const std::string& hosts, int ranks, const std::string& here);

/// `ranks` ranks, all on this host.
std::vector<Placement> place_here(int ranks);

/// The address at which ranks on other hosts reach rank 0: the name given for its host. If that is this host (`here`):
/// its addresses on the routes to the others, separated by ',', since its own name is often unknown elsewhere or
/// resolves to loopback. Empty if all ranks are on this host.
std::string meeting_host(const std::vector<Placement>& ranks, const std::string& here);

/// Ranks on several hosts must know rank 0's host. The user's exported variables take precedence, except those that an
/// outer tutti run set for its own ranks. `port` 0: TUTTI_PORT, the first of TUTTI_PORTS, or a random one.
void set_meeting_point(Job& job, int port, const std::string& here);

/// This host's name. Throws Error(SystemError).
std::string host_name();

}  // namespace tutti::tools
