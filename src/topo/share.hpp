// How the network interfaces of a host are divided among its ranks.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::topo {

/// A rank's place among those of its host, in order of rank.
struct HostPlace {
  int index = 0;
  int ranks = 0;
};

/// Which of these interfaces, given by their NUMA nodes (−1: unknown), a rank on `numa` uses. Interfaces far from its
/// cores are left out if there are near ones. Ranks begin at different interfaces, and each uses as many as there are
/// for each rank, at least one.
std::vector<size_t> share_out(const std::vector<int>& nodes, int numa, const HostPlace& place);

}  // namespace tutti::topo
