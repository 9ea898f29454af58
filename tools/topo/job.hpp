// The topology of a job: of all its ranks' hosts, with the ranks.
#pragma once

#include "topo/graph.hpp"

namespace tutti::tools {

/// Is this process a rank of a job of several (`tutti run -n 4 -- tutti topo`)?
bool is_in_job();

struct JobTopology {
  topo::Graph graph;
  int rank = 0;
};
/// Collective over the job. Equal on all ranks. Throws Error if the job cannot meet, or a rank's topology is not valid.
JobTopology topology_of_job();

}  // namespace tutti::tools
