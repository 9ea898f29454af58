// The model's view of a topology: ranks on its devices, and what their links cost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "select/inputs.hpp"
#include "select/places.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// The names of a job's facts (topo::Graph::facts), as CostInputs and HandOver have them.
namespace facts {
inline constexpr const char* kGamma = "gamma";
inline constexpr const char* kContextSwitch = "context_switch";
inline constexpr const char* kOversubscription = "oversubscription";
inline constexpr const char* kStaging = "staging";
inline constexpr const char* kMessage = "message";
inline constexpr const char* kWidth = "threads";
inline constexpr const char* kReading = "reading";
inline constexpr const char* kSharesCores = "shares_cores";
inline constexpr const char* kAlwaysCma = "always_cma";
inline constexpr const char* kShiftCma = "shift_cma";
inline constexpr const char* kNoCma = "no_cma";
inline constexpr const char* kNoCmaFolds = "no_cma_folds";
inline constexpr const char* kShiftWait = "shift_wait";
inline constexpr const char* kShiftCaches = "shift_caches";
}  // namespace facts

/// What inputs were made from, for people to read.
struct MachineNotes {
  std::string ends;  ///< "GPUs", "cores"
  Rank hosts = 1;
  uint32_t rails = 0;                ///< NICs of a host that its ranks use; 0: one host
  double sharing = 1;                ///< ranks of a host on its busiest NIC
  std::string over;                  ///< the kinds of the slowest paths alone: "NVLink", "NVLink+network"
  std::string inside, between;       ///< the kind of the slowest path, and what is known of it
  std::vector<std::string> links;    ///< those between hosts that are slower than others, by `tutti tune`
  std::vector<std::string> unknown;  ///< what was assumed, as the graph notes it
};

struct MachineInputs {
  CostInputs inputs;
  MachineNotes notes;
};

/// What choices are made from, of ranks that stand on a topology as place_ranks() says.
///
/// Inside a host, α is that of the slowest pair of ranks. β is that of the narrowest pair, or of the link that is most
/// contended when every rank sends to its next neighbour, whichever is slower. Between hosts, each rank sends to the
/// rank of its place on the next host; ranks whose paths share a link (a NIC's port, a PCIe switch) get a share of it
/// each. A job's figures stand above those of links. Only so many ranks are looked at as can be in reasonable time:
/// hosts are usually alike. Where pairs of ranks differ, the view has each of them; and the order of ranks is one in
/// which neighbours are near. On GPUs a fold is fused with the copy, and their memory is much faster than their links,
/// so γ is 0. `groups`: null for those of TUTTI_GROUPS, or else of hosts. Where all ranks are of one group, and neither
/// on GPUs nor grouped by TUTTI_GROUPS, those that share a cache are a group (groups_by_cache). Plans that
/// were synthesised for these ranks are read where they are kept. Throws what
/// place_ranks() throws, and Error(InvalidArgument) if there is no path, or for wrong TUTTI_GROUPS.
MachineInputs inputs_of(const topo::Graph& graph, Rank ranks, std::shared_ptr<const plan::Grouping> groups = nullptr);

/// The same without a topology: the figures of this machine, calibrated ones if there are any (shared memory inside a
/// host, TCP between).
MachineInputs inputs_here(Rank ranks, Rank hosts);

/// From now on, algorithms that are demanded are drawn on the communicator's order, as those are that are chosen: what
/// `tutti tune` measures is what will run.
void keep_one_order();

/// The lengths by which blocks are handed over in host memory, as the quick calibration scales them; unless there is a
/// profile, which knows better.
void take_lengths(CostInputs& inputs);

}  // namespace tutti::select
