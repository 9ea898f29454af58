// Which processors this process may run on.
#pragma once

#include <string>
#include <vector>

namespace tutti {

/// Processor numbers, ascending.
using Cores = std::vector<int>;

/// The affinity mask of the calling thread; {0} if it cannot be read.
Cores allowed_cores();

/// The NUMA node that has all of them; −1 if several do, or it is not known.
int numa_node_of(const Cores& cores, const std::string& root = "");

/// An affinity mask, as the kernel wants it.
using AffinityMask = std::vector<unsigned long>;
AffinityMask affinity_mask(const Cores& cores);
/// Confines the calling thread to them, if the system lets it. Allocates nothing: a child of fork() may call it.
void run_on(const AffinityMask& mask);

/// The kernel's format: "0-3,8".
std::string to_text(const Cores& cores);
/// Reads such a text. Throws Error(ProtocolError) if it is invalid.
Cores parse_cores(const std::string& text);

}  // namespace tutti
