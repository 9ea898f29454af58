// What a job's messages take, as all ranks' reports tell.
#pragma once

#include <vector>

#include "comm/rank_report.hpp"
#include "topo/graph.hpp"

namespace tutti::comm {

/// By kind of pairs of ranks. It stands above what the graph says of their links. Times are those of the slowest rank,
/// and rates at most those of the fastest: hosts may differ.
std::vector<topo::Figure> figures_of(const std::vector<RankReport>& reports);

}  // namespace tutti::comm
