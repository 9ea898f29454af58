// Which of a host's network interfaces lead to another host, and which of them one of its ranks uses.
#pragma once

#include <vector>

#include "base/address.hpp"
#include "topo/share.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

/// A way, and the NUMA node of its interface; −1: unknown.
struct NumaPath {
  transports::Path path;
  int numa = -1;
};

/// The ways to a host with these addresses: over the interfaces that TUTTI_INTERFACE permits and the kernel's routes
/// name, each once, fastest first. Interfaces with less than half the speed of the fastest one are left out, and so are
/// interfaces of unknown speed unless TUTTI_INTERFACE names what is to be used.
std::vector<NumaPath> paths_to(const std::vector<Address>& addresses);

/// This rank's part of the ways, as topo::share_out() divides them: the fastest first.
std::vector<transports::Path> share_out(const std::vector<NumaPath>& paths, int numa, const topo::HostPlace& place);

}  // namespace tutti::control
