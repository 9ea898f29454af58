// An all-reduce that a switch between GPUs folds and multicasts (method nvls), beside the trees made for a machine.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/algorithm.hpp"
#include "select/inputs.hpp"
#include "synth/bound.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// What the cost model says of both; the simulator knows no switch that folds.
struct Switched {
  std::string why_not;                ///< why nvls cannot run; "": it can
  std::string algorithm;              ///< of the catalogue, whose plan nvls runs: each rank folds a part for all
  std::vector<plan::RankPlan> plans;  ///< its, of all ranks; verified
  double seconds = 0;                 ///< of a call by nvls
  std::optional<double> trees;        ///< of the trees, by the best other method; none: no other runs them
  std::string trees_by;               ///< that method
  bool taken() const { return why_not.empty() && (!trees || seconds < *trees); }
};

/// What calls cost on a machine, whatever the environment demands and whatever plans are kept. `ranks`: as
/// machine_of() was told, or 0.
select::CostInputs inputs_of_catalogue(const topo::Graph& graph, Rank ranks);
/// Why nvls runs nothing there; "": it may.
std::string why_no_nvls(const select::CostInputs& inputs);

/// For a call of so many bytes. `inputs`: of inputs_of_catalogue(). `trees`: of all ranks, verified.
Switched switched_all_reduce(const select::CostInputs& inputs, const plan::Algorithm& trees, uint64_t bytes);

/// Lines below those of the trees. `bound`: the one where switches fold.
std::string text_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes);
nlohmann::ordered_json json_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes);

/// The bound's certificate, and what is known of reaching it. `why_no_nvls`: "" if it may run.
std::string folding_text(const synth::Network& network, const synth::Bound& bound, const std::string& why_no_nvls);

}  // namespace tutti::tools
