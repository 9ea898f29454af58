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

/// Adds the GPUs and NVLinks that NVIDIA's management library (its name or path) reports to a host's graph.
void add_gpus(Graph& graph, const std::string& library);

/// The same, kept for the boot in the user's cache folder, where another process has left it: it takes a millisecond
/// then. What differs between processes is not in it: the cores that they may use, and their control group's limit; nor
/// what only processes with GPUs ask for: NVLinks.
const Graph& kept_topology();
/// The same with the GPUs as they are now. Takes up to a second, once a process.
const Graph& gpu_topology();

/// Why a host's graph is not that of the machine on which a process may run on the cores `allowed`, out of `processors`
/// (hardware threads) of the machine; "": nothing speaks against it. It follows "it".
std::string why_of_another(const Graph& host, const Cores& allowed, size_t processors);
/// Throws Error(InvalidUsage) if HWLOC_XMLFILE or HWLOC_SYNTHETIC describes a machine that cannot be this one: commands
/// may show it, but no job may choose by it.
void refuse_description_of_another();

/// The GPU with this PCI address on a host of the graph; kNoNode: it has none.
NodeId find_gpu(const Graph& graph, NodeId host, const std::string& address);

}  // namespace tutti::topo
