// tutti topo --weakest: what the loss of each link costs.
#pragma once

#include <string>

#include "topo/graph.hpp"
#include "tutti/types.hpp"

namespace tutti::tools {

/// A table, a kind of link a line, the worst first. Ranks are the GPUs, else the cores.
std::string weakest_text(const topo::Graph& graph, Collective collective);

}  // namespace tutti::tools
