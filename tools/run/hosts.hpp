// On which host each rank runs.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Reads "a,b:4" and gives `ranks` ranks their hosts, host by host in the order given. A host with ":slots" takes at
/// most that many; the others share the rest evenly, earlier ones first. `ranks` 0: every slot, and one rank where no
/// slots are given. "localhost", addresses of the loopback interface and this host's own name (`here`) become the empty
/// host name.
/// Throws Error(InvalidArgument).
std::vector<Placement> place(const std::string& hosts, int ranks, const std::string& here);

/// `ranks` ranks, all on this host.
std::vector<Placement> place_here(int ranks);

/// Where ranks on other hosts find rank 0: the name that its host was given. Where that is this host (`here`), the
/// addresses that it has on the way to the others, ',' between them: what it calls itself is often known to nobody
/// else, or is its loopback address. Empty when all ranks are on this host.
std::string meeting_host(const std::vector<Placement>& ranks, const std::string& here);

/// This host's name. Throws Error(SystemError).
std::string host_name();

}  // namespace tutti::tools
