// Assigns ranks to hosts.
#pragma once

#include <string>
#include <vector>

#include "tools/run/host_list.hpp"
#include "tools/run/job.hpp"

namespace tutti::tools {

/// Assigns `ranks` ranks to these hosts in order. A host with slots takes at most that many; the others share the rest
/// evenly, earlier ones first. `ranks` 0: every slot, and one rank on hosts without a slot count. "localhost", loopback
/// addresses and this host's own name (`here`) become the empty host name. Throws Error(InvalidArgument).
std::vector<Placement> place(const std::vector<Host>& hosts, int ranks, const std::string& here);

/// `ranks` ranks, all on this host.
std::vector<Placement> place_here(int ranks);

/// This host's name. Throws Error(SystemError).
std::string host_name();

}  // namespace tutti::tools
