#include "tools/info_machine.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/bytes.hpp"
#include "tools/run/binding.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  Topology topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

/// "1.9G"; exact if few digits suffice.
std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "K", "M", "G", "T"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g}{}", value, kUnits[unit]);
}

/// "2 of 32K": how many there are, and how large the first one is.
std::string caches(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const int number = hwloc_get_nbobjs_by_type(topology, type);
  if (number <= 0) return "not told by this machine";
  const uint64_t bytes = hwloc_get_obj_by_type(topology, type, 0)->attr->cache.size;
  return fmt::format("{} of {}", number, size_text(bytes));
}

std::string processor_model(hwloc_topology_t topology) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* const model = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return model == nullptr ? "not told by this machine" : model;
}

void add_processors(ordered_json& facts) {
  const Topology topology = load_topology();
  if (!topology) {
    facts["processors"] = "hwloc could not read this machine";
    return;
  }
  const auto number = [&](hwloc_obj_type_t type) {
    return std::max(0, hwloc_get_nbobjs_by_type(topology.get(), type));
  };
  facts["processor"] = processor_model(topology.get());
  facts["sockets"] = number(HWLOC_OBJ_PACKAGE);
  facts["numa_nodes"] = number(HWLOC_OBJ_NUMANODE);
  facts["cores"] = number(HWLOC_OBJ_CORE);
  facts["processors"] = number(HWLOC_OBJ_PU);
  facts["l1d"] = caches(topology.get(), HWLOC_OBJ_L1CACHE);
  facts["l2"] = caches(topology.get(), HWLOC_OBJ_L2CACHE);
  facts["l3"] = caches(topology.get(), HWLOC_OBJ_L3CACHE);
  facts["memory"] = size_text(hwloc_get_root_obj(topology.get())->total_memory);
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Keeps the tighter of the two limits.
void tighten(std::optional<double>& limit, double quota, double period) {
  if (quota <= 0 || period <= 0) return;
  limit = limit ? std::min(*limit, quota / period) : quota / period;
}

/// The limits in one control group's folder.
void add_limits(const fs::path& folder, std::optional<double>& limit) {
  double quota = 0, period = 0;
  std::istringstream second(first_line(folder / "cpu.max"));  // "max 100000" if there is no limit
  if (second >> quota >> period) tighten(limit, quota, period);
  std::istringstream first(
      fmt::format("{} {}", first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us")));
  if (first >> quota >> period) tighten(limit, quota, period);  // -1 if there is no limit
}

}  // namespace

ordered_json machine_facts() {
  ordered_json facts;
  utsname system{};
  uname(&system);
  facts["host"] = system.nodename;
  facts["kernel"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  add_processors(facts);
  return facts;
}

ordered_json share_facts() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  ordered_json facts;
  facts["affinity"] = to_text(mine);
  facts["usable_processors"] = CPU_COUNT(&mine);
  facts["usable_cores"] = usable_cores().size();
  const auto quota = cpu_quota();
  facts["cpu_quota"] = quota ? ordered_json(*quota) : ordered_json("none");
  return facts;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> limit;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "0::/path", or "4:cpu,cpuacct:/path" in version 1
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == std::string::npos) continue;
    // In a container its own group may appear as the mount's root, whatever its path; so every level on the path
    // counts.
    const fs::path mount = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      add_limits(mount / group, limit);
      if (group.empty()) break;
    }
  }
  return limit;
}

}  // namespace tutti::tools
