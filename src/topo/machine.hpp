// The machine as hwloc sees it: cores, caches, memory. Beside it: what this process may use (topo/cores.hpp,
// topo/cgroup.hpp), and what was measured or chosen (topo/constants.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/cgroup.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti {

/// A cache of data (or of data and instructions).
struct Cache {
  int level = 0;
  uint64_t bytes = 0;  ///< 0: unknown
  uint64_t line = 0;   ///< bytes of a line; 0: unknown
  Cores processors;    ///< that share it
};

struct NumaNode {
  uint64_t bytes = 0;
  Cores processors;  ///< nearest to it; none if it has memory only
};

/// A whole machine, of which this process may be allowed a part. In containers and virtual machines some of it may be
/// hidden: then the lists are empty and the numbers 0.
struct Machine {
  bool is_this_one = true;  ///< false: HWLOC_XMLFILE or HWLOC_SYNTHETIC describes a machine that need not be this one
  std::string model;        ///< the processor's; "": unknown
  Cores processors;
  std::vector<Cores> sockets, cores;  ///< the processors (hardware threads) of each
  std::vector<Cache> caches;          ///< the smallest level first
  std::vector<NumaNode> nodes;
  uint64_t memory = 0;  ///< bytes; 0: unknown
};

/// Asks hwloc, which takes milliseconds, on large machines more. Throws Error if it cannot read the machine, or the
/// description that HWLOC_XMLFILE or HWLOC_SYNTHETIC gives.
Machine read_machine();

/// The processors `allowed` of each core that has one. A processor that belongs to no known core counts as a core.
std::vector<Cores> cores_within(const Machine& machine, const Cores& allowed);

/// The caches of `level` that serve at least one of the processors `allowed`, with those of them that share it.
std::vector<Cache> caches_within(const Machine& machine, int level, const Cores& allowed);

/// Ranks per core of a host, at least 1, where rank i may run on `ranks[i]`; `quota`: processor time in cores.
double ranks_per_core(const std::vector<Cores>& ranks, double quota);

/// Must a rank of a host that may run on the cores `mine` share one? `all`: of each thread of every rank of the host;
/// `quota`: as above.
bool shares_cores(const Cores& mine, const std::vector<Cores>& all, double quota);

}  // namespace tutti
