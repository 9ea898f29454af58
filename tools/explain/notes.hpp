// What `tutti explain` says beside its table: what the user asked for that has no part in it, and what was assumed.
#pragma once

#include <string>
#include <vector>

#include "select/explain.hpp"
#include "select/inputs.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// Of variables that are set and choose nothing in this table. `gpus`: calls on memory of GPUs.
std::vector<std::string> notes_of_variables(Collective collective, bool gpus, const select::CostInputs& inputs,
                                            const std::vector<select::Candidate>& all);

/// Of GPUs that several ranks use; none: each has its own.
std::vector<std::string> notes_of_shared_gpus(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks);

/// That this machine's links have the constants' figures because the quick calibration has failed.
std::vector<std::string> notes_of_calibration();

}  // namespace tutti::tools
