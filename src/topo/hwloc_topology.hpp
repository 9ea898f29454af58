// hwloc's view of this machine, or of one that HWLOC_XMLFILE or HWLOC_SYNTHETIC describes.
#pragma once

#include <hwloc.h>

#include <memory>

namespace tutti {

using HwlocTopology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

enum class HwlocScope { Processors, Devices };  ///< Devices: PCI and its devices too, which takes longer

/// The whole machine, with what this process may not use. Throws Error.
HwlocTopology load_hwloc(HwlocScope scope);

}  // namespace tutti
