#include "topo/machine.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "topo/hwloc_topology.hpp"

namespace tutti {
namespace {

Cores cores_of(hwloc_const_bitmap_t set) {
  Cores cores;
  if (set == nullptr || hwloc_bitmap_last(set) < 0) return cores;  // none, or no end
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) cores.push_back(i);
  return cores;
}

/// Calls visit(object) for each object of this type, in the machine's order.
template <class Visit>
void each(hwloc_topology_t topology, hwloc_obj_type_t type, Visit&& visit) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    visit(object);
  }
}

std::string model_of(hwloc_topology_t topology) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* const model = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return model == nullptr ? "" : model;
}

Cores intersection(const Cores& a, const Cores& b) {
  Cores both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  const HwlocTopology owner = load_hwloc(HwlocScope::Processors);
  const hwloc_topology_t topology = owner.get();
  machine.is_this_one = hwloc_topology_is_thissystem(topology) != 0;
  machine.model = model_of(topology);
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  machine.processors = cores_of(root->cpuset);
  machine.memory = root->total_memory;
  each(topology, HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t o) { machine.sockets.push_back(cores_of(o->cpuset)); });
  each(topology, HWLOC_OBJ_CORE, [&](hwloc_obj_t o) { machine.cores.push_back(cores_of(o->cpuset)); });
  each(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t o) {
    machine.nodes.push_back({o->attr->numanode.local_memory, cores_of(o->cpuset)});
  });
  for (const auto& [type, level] : {std::pair(HWLOC_OBJ_L1CACHE, 1),
                                    {HWLOC_OBJ_L2CACHE, 2},
                                    {HWLOC_OBJ_L3CACHE, 3},
                                    {HWLOC_OBJ_L4CACHE, 4},
                                    {HWLOC_OBJ_L5CACHE, 5}}) {
    each(topology, type, [&, level = level](hwloc_obj_t o) {
      machine.caches.push_back({level, o->attr->cache.size, o->attr->cache.linesize, cores_of(o->cpuset)});
    });
  }
  return machine;
}

std::vector<Cores> cores_within(const Machine& machine, const Cores& allowed) {
  std::vector<Cores> cores;
  Cores known;
  for (const Cores& core : machine.cores) {
    Cores mine = intersection(core, allowed);
    known.insert(known.end(), mine.begin(), mine.end());
    if (!mine.empty()) cores.push_back(std::move(mine));
  }
  std::sort(known.begin(), known.end());
  for (const int processor : allowed) {
    if (!std::binary_search(known.begin(), known.end(), processor)) cores.push_back({processor});
  }
  return cores;
}

std::vector<Cache> caches_within(const Machine& machine, int level, const Cores& allowed) {
  std::vector<Cache> caches;
  for (const Cache& cache : machine.caches) {
    Cores mine = intersection(cache.processors, allowed);
    if (cache.level == level && !mine.empty()) caches.push_back({level, cache.bytes, cache.line, std::move(mine)});
  }
  return caches;
}

double ranks_per_core(const std::vector<Cores>& ranks, double quota) {
  Cores all;
  for (const Cores& rank : ranks) {
    Cores joined;
    std::set_union(all.begin(), all.end(), rank.begin(), rank.end(), std::back_inserter(joined));
    all = std::move(joined);
  }
  const double room = std::min(static_cast<double>(all.size()), std::ceil(quota));
  return std::max(1.0, static_cast<double>(ranks.size()) / std::max(1.0, room));
}

bool shares_cores(const Cores& mine, const std::vector<Cores>& all, double quota) {
  const auto confined = std::count_if(all.begin(), all.end(), [&](const Cores& theirs) {  // to this rank's cores
    return std::includes(mine.begin(), mine.end(), theirs.begin(), theirs.end());
  });
  return ranks_per_core(all, quota) > 1 || static_cast<size_t>(confined) > mine.size();
}

}  // namespace tutti
