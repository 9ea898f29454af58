#include "topo/hwloc_topology.hpp"

#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"

namespace tutti {
namespace {

/// Makes hwloc read the description that the user gives instead of this machine. Left to itself, hwloc would silently
/// ignore one that it cannot read.
void use_description(hwloc_topology_t topology) {
  const auto use = [&](const char* variable, auto&& set) {
    const auto value = foreign_env(variable);
    if (!value || value->empty()) return;
    errno = 0;
    if (set(topology, value->c_str()) == 0) return;
    throw_error(Code::InvalidArgument, "hwloc cannot read {}={}: {}", variable, *value,
                std::strerror(errno != 0 ? errno : EINVAL));
  };
  use("HWLOC_XMLFILE", hwloc_topology_set_xml);
  use("HWLOC_SYNTHETIC", hwloc_topology_set_synthetic);
}

}  // namespace

HwlocTopology load_hwloc(HwlocScope scope) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw_error(Code::SystemError, "hwloc cannot start: {}", std::strerror(errno));
  HwlocTopology topology(raw, hwloc_topology_destroy);
  use_description(raw);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (scope == HwlocScope::Devices) hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // GPUs are asked for by NVML. These plugins would load drivers into the process, or call an X server.
  for (const char* plugin : {"cuda", "gl", "levelzero", "nvml", "opencl", "rsmi"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  }
  if (hwloc_topology_load(raw) != 0) {
    throw_error(Code::SystemError, "hwloc cannot read the machine: {}", std::strerror(errno));
  }
  return topology;
}

}  // namespace tutti
