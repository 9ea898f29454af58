#include "tools/run/binding.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::tools {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

}  // namespace

std::vector<cpu_set_t> usable_cores() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);

  std::vector<cpu_set_t> cores;
  const Topology topology = load_topology();
  const int all = topology ? hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) : 0;
  for (int i = 0; i < all; ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mine) && hwloc_bitmap_isset(core->cpuset, static_cast<unsigned>(cpu))) CPU_SET(cpu, &set);
    }
    if (CPU_COUNT(&set) > 0) cores.push_back(set);
  }
  if (!cores.empty()) return cores;

  // If the machine's cores are unknown, every processor counts as one.
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mine)) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    cores.push_back(set);
  }
  if (cores.empty()) cores.push_back(mine);
  return cores;
}

std::string bind_ranks(std::vector<Placement>& ranks, Binding how, const std::vector<cpu_set_t>& cores) {
  const auto here = static_cast<size_t>(
      std::count_if(ranks.begin(), ranks.end(), [](const Placement& rank) { return rank.host.empty(); }));
  if (how == Binding::None) return "ranks are not bound to cores (--bind none)";
  if (how == Binding::Auto && here > cores.size()) {
    return fmt::format("ranks are not bound to cores: {}, {}", counted(here, "rank"), counted(cores.size(), "core"));
  }
  if (how == Binding::Auto && here <= 1) return "ranks are not bound to cores: there is but one rank here";
  for (Placement& rank : ranks) {
    if (rank.host.empty()) rank.cpus = cores[static_cast<size_t>(rank.local_rank) % cores.size()];
  }
  return fmt::format("{} bound to {}, rank by rank", here == 1 ? "1 rank is" : fmt::format("{} ranks are", here),
                     counted(std::min(here, cores.size()), "core"));
}

std::string to_text(const cpu_set_t& cpus) {
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last > cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  return text;
}

}  // namespace tutti::tools
