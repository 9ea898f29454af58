// The topology of this machine, as seen from this process.
#pragma once

#include <string>

#include "topo/graph.hpp"

namespace tutti::topo {

/// Where to look; tests present machines of their own.
struct Sources {
  std::string root;                        ///< prepended to /proc and /sys
  std::string nvml = "libnvidia-ml.so.1";  ///< "": none
  std::string hwloc_xml;                   ///< a description instead of asking hwloc; "": ask
};

/// Asks hwloc, the kernel and NVML. Takes milliseconds, with GPUs up to a second. HWLOC_XMLFILE and HWLOC_SYNTHETIC
/// describe a whole other machine: then only hwloc is asked. Throws Error.
Graph detect(const Sources& sources = {});

/// detect() of this machine, made when first asked for and kept.
const Graph& local_topology();

}  // namespace tutti::topo
