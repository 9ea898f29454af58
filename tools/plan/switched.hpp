// An all-reduce that a switch between GPUs folds and multicasts (method nvls), beside the trees made for a machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/algorithm.hpp"
#include "synth/bound.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// What the cost model says of both; the simulator knows no switch that folds.
struct Switched {
  std::string why_not;                ///< why nvls cannot run; "": it can
  std::string algorithm;              ///< of the catalogue, whose plan nvls runs: each rank folds a part for all
  std::vector<plan::RankPlan> plans;  ///< its, of all ranks; verified
  double seconds = 0;                 ///< of a call by nvls
  double trees = 0;                   ///< of the trees, by the best other method …
  std::string trees_by;               ///< … which is this
  bool taken() const { return why_not.empty() && seconds < trees; }
};

/// For a call of so many bytes. `trees`: of all ranks, verified. `ranks`: as machine_of() was told, or 0.
Switched switched_all_reduce(const topo::Graph& graph, Rank ranks, const plan::Algorithm& trees, uint64_t bytes);

/// Lines below those of the trees. `bound`: the one where switches fold.
std::string text_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes);
nlohmann::ordered_json json_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes);

/// The bound's certificate, and what is known of reaching it. Of ranks on so many hosts.
std::string folding_text(const synth::Network& network, const synth::Bound& bound, Rank hosts);

}  // namespace tutti::tools
