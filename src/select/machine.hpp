// The model's view of a topology: ranks on its devices, and what their links cost.
#pragma once

#include <string>
#include <vector>

#include "select/model.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// What a setting was made from, for people to read.
struct MachineNotes {
  std::string ends;  ///< "GPUs", "cores"
  Rank hosts = 1;
  uint32_t rails = 0;                ///< NICs of a host that its ranks use; 0: one host
  double sharing = 1;                ///< ranks of a host on its busiest NIC
  std::string inside, between;       ///< the kind of the slowest path
  std::vector<std::string> unknown;  ///< what was assumed, as the graph notes it
};

struct MachineSetting {
  Setting setting;
  MachineNotes notes;
};

/// Where ranks are, by rank.
struct RankNodes {
  std::vector<topo::NodeId> nodes;  ///< a GPU or a core; a host of unknown parts
  std::vector<Rank> hosts;          ///< the number of its host
};
/// Places ranks as setting_of() does.
RankNodes place_ranks(const topo::Graph& graph, Rank ranks);

/// `ranks` ranks (0: one for each GPU or, without GPUs, each core) on the hosts of a topology, in equal shares, each on
/// a GPU or core of its own as far as there are enough.
///
/// Inside a host, α is that of the slowest pair of ranks. β is that of the narrowest pair, or of the link that is most
/// contended when every rank sends to its next neighbour, whichever is slower. Between hosts, each rank sends to the
/// rank of its place on the next host; ranks whose paths share a link (a NIC's port, a PCIe switch) get a share of it
/// each. Only so many ranks are looked at as can be in reasonable time: hosts are usually alike. On GPUs a fold is
/// fused with the copy, and their memory is much faster than their links, so γ is 0. Throws Error(InvalidArgument) if
/// there are more hosts than ranks, or if there is no path.
MachineSetting setting_of(const topo::Graph& graph, Rank ranks);

/// The same without a topology: the constants of this machine (shared memory inside a host, TCP between).
MachineSetting setting_here(Rank ranks, Rank hosts);

}  // namespace tutti::select
