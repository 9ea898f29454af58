// What the ranks of a new communicator tell each other, and what they agree on. Other ranks' texts
// are not trusted: an invalid one is an Error(ProtocolError).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "comm/fabric.hpp"
#include "comm/groups.hpp"
#include "comm/host_ranks.hpp"
#include "comm/rank_report.hpp"
#include "control/endpoint.hpp"
#include "exec/wait.hpp"
#include "select/decision_table.hpp"
#include "select/inputs.hpp"
#include "select/machine.hpp"
#include "topo/graph.hpp"

namespace tutti::comm {

struct Agreement {
  std::vector<RankReport> reports;  ///< by rank
  select::CostInputs inputs;
  select::MachineNotes notes;   ///< on rank 0: what the inputs were made from
  topo::Graph graph;            ///< on rank 0: the job's hosts, ranks and figures
  select::DecisionTable table;  ///< of calls in host memory
  exec::Backoff backoff;        ///< this rank's
  RanksByProcess host_ranks;    ///< of this communicator, on this host
};

/// Exchanges reports and conclusions. Collective. `backends`: this rank's, by name. Throws Error: Mismatch if the
/// ranks' plans differ, Unsupported if a rank cannot reach another or a forced algorithm cannot be used, and what
/// Endpoint::exchange throws.
Agreement agree(control::Endpoint& endpoint, Fabric& fabric, const Groups& groups, bool groups_given,
                std::map<std::string, BackendReport> backends, Deadline deadline);

}  // namespace tutti::comm
