// `tutti plan synth --sizes`: which of the plans made for a machine is the fastest for which sizes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "select/inputs.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// Sizes of a call from `from` to `to` bytes, in powers of two, for which one plan is the best.
struct SizeRow {
  struct At {
    double seconds = 0;              ///< the selector's prediction
    std::optional<double> of_bound;  ///< part of the bound; none: unknown
    std::string other;               ///< the catalogue's best algorithm, …
    std::string other_by;            ///< … its method, …
    double other_seconds = 0;        ///< … and what it takes
  };
  uint64_t from = 0, to = 0;
  std::string plan;
  At first, last;  ///< at both ends
};

/// From 8 B to 1 GiB. `inputs`: with plans (CostInputs::synthesised) and bounds.
std::vector<SizeRow> sizes_of_plans(Collective collective, const select::CostInputs& inputs);

/// As a table, and as JSON.
std::string text_of(const std::vector<SizeRow>& rows);
std::string json_of(Collective collective, Rank ranks, const std::vector<SizeRow>& rows);

}  // namespace tutti::tools
