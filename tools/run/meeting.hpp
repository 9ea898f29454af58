// Where ranks of several hosts meet: rank 0's host, as the others reach it.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// The address at which ranks on other hosts reach rank 0: the name given for its host. If that is this host (`here`):
/// its addresses on the routes to the others, separated by ',', since its own name is often unknown elsewhere or
/// resolves to loopback. Empty if all ranks are on this host.
std::string meeting_host(const std::vector<Placement>& ranks, const std::string& here);

/// Ranks on several hosts must know rank 0's host. The user's exported variables take precedence, except those that an
/// outer tutti run set for its own ranks. `port` 0: TUTTI_PORT, the first of TUTTI_PORTS, or a random one.
void set_meeting_point(Job& job, int port, const std::string& here);

/// Where nobody but ssh or --launcher knows the name of rank 0's host, asks that host for its addresses, and uses them.
/// Starts a process there.
void resolve_meeting_point(Job& job);

}  // namespace tutti::tools
